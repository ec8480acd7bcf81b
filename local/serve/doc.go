// Package serve runs every function of the module in this process, each at /<Name>, under the functions framework: what
// Cloud Run runs, on a person's machine.
package serve
