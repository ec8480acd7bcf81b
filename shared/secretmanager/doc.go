// Package secretmanager reads secret versions from Google Cloud Secret Manager, for the secret:// references of a
// configuration. It is the only importer of that client.
//
// The client is made at the first secret that is asked for: a configuration without references needs no credentials.
//
// Not its job: to list, cache, write or rotate secrets.
package secretmanager
