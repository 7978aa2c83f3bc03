package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// judgement is what is known of a review in the end.
type judgement struct {
	// review is nil if it could not be read, and verdict if there is none.
	review  *hook.Review
	verdict *hook.Verdict
	answer  []byte
	result  Result
}

// review puts a review to the hook, and the verdict to the API server.
func (s *Server) review(w http.ResponseWriter, r *http.Request, to *route) {
	began := s.options.Now()
	limit := patience(r, to.webhook.Timeout)
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, &late{limit})
	defer cancel()
	var j judgement
	held := s.memory.begin(to.budget, cutOff(w))
	defer held.end()
	err := s.judge(ctx, &j, to, func() ([]byte, error) { return s.read(ctx, w, r, held) })
	if err != nil {
		j.result = Errored
		err = fmt.Errorf("webhook %s of %s: %w", to.webhook.Name, to.program.Name, err)
		respond(w, err)
	} else {
		deliver(w, j.answer)
	}
	s.log(to, err)
	if s.options.Observer == nil {
		return
	}
	occasion := Occasion{
		Program: to.program.Name, Webhook: to.webhook.Name, Result: j.result, Err: err,
		Began: began, Took: s.options.Now().Sub(began), Review: j.review, Verdict: j.verdict, Authenticated: authenticated(r),
	}
	if j.review != nil {
		occasion.Operation = j.review.Operation
	}
	s.options.Observer.Admitted(occasion)
	if err != nil {
		return
	}
	for _, event := range told(j.review, j.verdict) {
		s.options.Observer.TellAt(event)
	}
}

// authenticated says that the caller has shown a certificate of the API server.
func authenticated(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// judge reads a review, and then asks and writes the answer into j, in its turn: who is
// slow to send one holds up no other.
func (s *Server) judge(ctx context.Context, j *judgement, to *route, read func() ([]byte, error)) error {
	body, err := read()
	if err != nil {
		return err
	}
	if j.review, err = decodeReview(body); err != nil {
		return malformed(err)
	}
	if err := plausible(to.webhook, j.review); err != nil {
		return err
	}
	if err := to.budget.enter(ctx); err != nil {
		return err
	}
	defer to.budget.leave()
	s.underWay.Add(1)
	defer s.underWay.Add(-1)
	j.review.Controller, j.review.Webhook = to.program.Object, to.webhook.Name
	if j.verdict, err = s.ask(ctx, to, j.review); err != nil {
		return err
	}
	answer, result, err := answerOf(to.webhook, j.review, j.verdict)
	if err != nil {
		return err
	}
	j.result = result
	j.answer, err = encode(answer)
	return err
}

// ask calls the webhook. A panic or a runtime.Goexit is an error like any, and so is a
// verdict that comes too late.
func (s *Server) ask(ctx context.Context, to *route, r *hook.Review) (v *hook.Verdict, err error) {
	err = failure.Contain("it", func() (err error) {
		v, err = to.webhook.Do.Admit(ctx, r)
		return err
	})
	if stack, crashed := failure.Crashed(err); crashed {
		s.options.Log.Error("webhook crashed", "program", to.program.Name, "webhook", to.webhook.Name,
			"error", oneLine(err), "stack", stack)
	}
	over := context.Cause(ctx)
	_, isLate := errors.AsType[*late](over)
	switch {
	case err != nil && isLate:
		return nil, fmt.Errorf("%w: %w", over, err)
	case err != nil:
		return nil, failure.By(failure.Handler, err)
	case isLate:
		return nil, over
	case over != nil:
		return nil, fmt.Errorf("nobody waits for the verdict any more: %w", over)
	}
	return v, nil
}

// late says that time is up.
type late struct{ limit time.Duration }

func (l *late) Error() string { return "no verdict within " + l.limit.String() }
func (*late) Unwrap() error   { return context.DeadlineExceeded }

// log says when a webhook begins to fail and when it has stopped; what comes between
// is counted.
func (s *Server) log(to *route, err error) {
	if err == nil && !to.failing.Load() {
		return
	}
	log := s.options.Log.With("program", to.program.Name, "webhook", to.webhook.Name)
	switch was := to.failing.Swap(err != nil); {
	case err == nil:
		log.Info("verdicts again")
	case was:
		log.Debug("no verdict again", "error", oneLine(err))
	default:
		log.Warn("no verdict", "error", oneLine(err))
	}
}
