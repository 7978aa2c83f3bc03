package asuser

import (
	"context"
	"time"
)

// pingLimit is how soon an API server is taken for gone that does not answer.
const pingLimit = 3 * time.Second

// Ping asks whether the API server answers at all: the error of one that does not
// wraps ErrUnreachable. What it answers does not count.
func (c *Cluster) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	_, err := c.kinds.read(ctx, asJSON, c.kinds.rest.Get().AbsPath("/version"))
	return err
}
