package kafkasource

import "context"

// Diagnose looks into why the host hung up with the cause, as after a dial of it that came to nothing.
func (s *Source) Diagnose(ctx context.Context, host string, cause error) error {
	s.connects.mu.Lock()
	s.connects.host, s.connects.silent = host, true
	s.connects.mu.Unlock()
	return s.diagnose(ctx, "trying", cause)
}
