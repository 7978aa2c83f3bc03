package load

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Caller sends a hook the same request over and over, as fast as it responds: the
// lower bound of the time of all contenders that call it that often.
type Caller struct {
	URL     string
	Body    []byte
	Workers int
}

// Call makes n calls and tells how long they took. Connections are made before.
func (c Caller) Call(ctx context.Context, n int) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: c.Workers}}
	defer client.CloseIdleConnections()
	call := func(ctx context.Context, _ int) error { return c.post(ctx, client) }
	if err := Each(ctx, c.Workers, c.Workers, call); err != nil {
		return 0, err
	}
	since := time.Now()
	err := Each(ctx, n, c.Workers, call)
	return time.Since(since), err
}

func (c Caller) post(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(c.Body))
	if err != nil {
		return fmt.Errorf("ask the hook: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the hook: %w", err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return fmt.Errorf("read the hook's response: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("ask the hook: %s", res.Status)
	}
	return nil
}
