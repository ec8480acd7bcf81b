// Package config reads the configuration of one pipeline: one YAML file, environment variables over it, references to
// secrets, environment and files in it. The form, with every key and its default, is config.example.yaml.
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
