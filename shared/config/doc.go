// Package config reads the configuration of one pipeline: one YAML file, environment variables over it, references to
// secrets, environment and files in it. The form is config.example.yaml; docs/config.md, which Document writes from the
// parsers in form.go and the texts in keytext.go, tells every key with its range and its default.
//
// kafka.properties takes the text that Kafka's own clients are given. The table in clientkey.go says which of its
// properties become values of our keys, which are ignored with a notice, and which are refused.
//
// Load is strict and reports every problem at once, each as one line with the key and where it stands. It promises that
// the text of an error holds no value of a Secret key and no content of a reference, and that a Config prints its
// Secrets as ***. A key that is no Secret prints what it holds, whatever it was read from.
//
// What the form allows and this version does not do is refused by the table in unsupported.go.
//
// Not its job: to connect to anything but the secret store, to watch for changes, YAML anchors and aliases, several
// pipelines in one file.
package config
