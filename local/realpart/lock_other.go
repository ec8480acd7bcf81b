//go:build !unix

package realpart

import (
	"context"
	"errors"
)

// lockFile is not built for this system: two processes must not fetch at once.
func lockFile(context.Context, string) (unlock func(), err error) {
	return nil, errors.New("downloads are not supported on this system")
}
