//go:build !linux

package realpart

import (
	"fmt"
	"os"
	"syscall"
)

// childAttr: only Linux has a signal for the death of the parent.
func childAttr() *syscall.SysProcAttr { return nil }

func signalGroup(pid int, sig syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("finding process %d: %w", pid, err)
	}
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("signalling process %d: %w", pid, err)
	}
	return nil
}
