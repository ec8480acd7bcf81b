//go:build !linux

package main

// usageOf is only known on Linux.
func usageOf(int) usage { return usage{} }
