package realpart

import "context"

// Program starts a program that listens on a loopback port, and waits until it does. The port is told in the environment
// variable portVariable.
func Program(ctx context.Context, opts Options, portVariable, name string, args ...string) (*Process, error) {
	return retryStart(func() (*Process, error) {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		started := opts
		started.Env = append([]string{portVariable + "=" + port}, opts.Env...)
		p, err := launch(started, name, args...)
		if err != nil {
			return nil, err
		}
		p.Host = "127.0.0.1:" + port
		if err := p.waitListening(ctx, name); err != nil {
			p.Stop()
			return nil, err
		}
		return p, nil
	})
}

// Kill ends a part at once, as a machine that goes away does, and returns when it is gone.
func (p *Process) Kill() {
	if !p.Started {
		return
	}
	_ = kill(p.cmd.Process.Pid)
	<-p.done
}

// PID is the process id of a part that was started here.
func (p *Process) PID() int { return p.cmd.Process.Pid }
