package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// idleJitter spreads idle timeouts, so that watches that became idle together are not
// reopened together.
const idleJitter = 0.2

// errIdle means that the API server sent nothing for the idle timeout.
var errIdle = errors.New("the API server, or a proxy before it, sends nothing")

// idleBody is the body of a response that is canceled when nothing arrives for the timeout. A
// proxy that drops packets, or an API server that lost a request, cannot be detected
// otherwise. Time in which no watch reads does not count.
type idleBody struct {
	io.ReadCloser
	//nolint:containedctx // Its cause says why the body ended.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

// openUnlessIdle sends a request and returns the body of its response. Both the wait for the
// headers and each wait for more of the body end after the timeout.
func openUnlessIdle(ctx context.Context, timeout time.Duration, send func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	b := &idleBody{timeout: wait.Jitter(timeout, idleJitter)}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.timer = time.AfterFunc(b.timeout, func() { b.cancel(fmt.Errorf("%w for %s", errIdle, timeout)) })
	body, err := send(b.ctx)
	b.timer.Stop()
	if err != nil {
		b.cancel(nil)
		if cause := b.idle(err); cause != err { //nolint:errorlint // Asks whether it is the same error.
			return nil, &url.Error{Op: "Get", Err: cause}
		}
		return nil, err
	}
	b.ReadCloser = body
	return b, nil
}

// Read fails with errIdle when nothing arrives for the timeout.
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.timeout)
	defer b.timer.Stop()
	n, err := b.ReadCloser.Read(p)
	return n, b.idle(err)
}

// Close closes the body and ends its request.
func (b *idleBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// idle returns errIdle for the error of a request that it ended, else the error.
func (b *idleBody) idle(err error) error {
	if cause := context.Cause(b.ctx); err != nil && errors.Is(cause, errIdle) {
		return cause
	}
	return err
}
