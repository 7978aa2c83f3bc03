package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Client looks into one process. Its zero value of HTTP is the default client.
type Client struct {
	Base string
	HTTP http.Client
}

// Ready says whether the process is ready for work.
func (c *Client) Ready(ctx context.Context) bool {
	return c.do(ctx, http.MethodGet, "/readyz", nil) == nil
}

// Stats returns what has been recorded so far.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	err := c.do(ctx, http.MethodGet, "/stats", &stats)
	return stats, err
}

// Arm prepares for the first call with a value for each of so many parents;
// Entered then waits for the last of them.
func (c *Client) Arm(ctx context.Context, value string, parents int) error {
	return c.do(ctx, http.MethodPost, "/arm?parents="+strconv.Itoa(parents)+"&value="+url.QueryEscape(value), nil)
}

// Body returns the body of the last call that was kept.
func (c *Client) Body(ctx context.Context) (body json.RawMessage, err error) {
	err = c.do(ctx, http.MethodGet, "/body", &body)
	return body, err
}

// Entered returns when the last of the awaited calls came in, waiting for it
// until ctx is done.
func (c *Client) Entered(ctx context.Context, value string) (time.Time, error) {
	var response entered
	err := c.do(ctx, http.MethodGet, "/entered?value="+url.QueryEscape(value), &response)
	return response.At, err
}

func (c *Client) do(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, c.Base+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	res, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("probe %s: %w", path, err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("probe %s: %s: %s", path, res.Status, body)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("probe %s: %w", path, err)
	}
	return nil
}
