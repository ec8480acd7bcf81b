//go:build !(linux && amd64)

package realpart

import (
	"context"
	"errors"
)

func downloadedMongod(context.Context) (string, error) {
	return "", errors.New("it is not on PATH and there is no download for this system")
}
