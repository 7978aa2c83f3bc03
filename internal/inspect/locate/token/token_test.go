package token_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/inspect/locate/token"
	"github.com/setpoint-dev/setpoint/internal/inspect/wire"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// fakeSecrets is a namespace with one Secret and optimistic concurrency.
type fakeSecrets struct {
	mu     sync.Mutex
	secret *corev1.Secret
	writes int
	reads  int
	// deny fails requests by verb.
	deny map[string]error
	// before is called before a write, without the lock.
	before func()
}

var resource = schema.GroupResource{Resource: "secrets"}

func forbidden(verb string) error {
	return apierrors.NewForbidden(resource, token.SecretName, fmt.Errorf("may not %s", verb))
}

func (n *fakeSecrets) Get(context.Context, string, metav1.GetOptions) (*corev1.Secret, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reads++
	switch {
	case n.deny["get"] != nil:
		return nil, n.deny["get"]
	case n.secret == nil:
		return nil, apierrors.NewNotFound(resource, token.SecretName)
	}
	return n.secret.DeepCopy(), nil
}

func (n *fakeSecrets) Create(_ context.Context, s *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return n.write("create", s, func() error {
		if n.secret != nil {
			return apierrors.NewAlreadyExists(resource, s.Name)
		}
		return nil
	})
}

func (n *fakeSecrets) Update(_ context.Context, s *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return n.write("update", s, func() error {
		switch {
		case n.secret == nil:
			return apierrors.NewNotFound(resource, s.Name)
		case n.secret.ResourceVersion != s.ResourceVersion:
			return apierrors.NewConflict(resource, s.Name, errors.New("changed"))
		}
		return nil
	})
}

func (n *fakeSecrets) write(verb string, s *corev1.Secret, check func() error) (*corev1.Secret, error) {
	if n.before != nil {
		n.before()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.deny[verb]; err != nil {
		return nil, err
	}
	if err := check(); err != nil {
		return nil, err
	}
	n.put(s)
	return n.secret.DeepCopy(), nil
}

func (n *fakeSecrets) put(s *corev1.Secret) {
	n.writes++
	n.secret = s.DeepCopy()
	n.secret.ResourceVersion = strconv.Itoa(n.writes)
}

// set writes a token like kubectl.
func (n *fakeSecrets) set(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := token.NewSecret("shop")
	s.Data = map[string][]byte{"token": []byte(text)}
	n.put(s)
}

func (n *fakeSecrets) token(t *testing.T) string {
	t.Helper()
	return must.Get(token.NewCredential(n, "shop").Token(t.Context(), "")).In(t)
}

func (n *fakeSecrets) guard(log *bytes.Buffer) *token.Guard {
	return token.NewGuard(n, "shop", slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
}

// Fault S10: the inspect endpoint of a pod had no token.
func TestOnlyTheRightTokenIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, elsewhere := &fakeSecrets{}, &fakeSecrets{}
		var log bytes.Buffer
		guard := here.guard(&log)
		guard.Prepare(t.Context())
		elsewhere.guard(&log).Prepare(t.Context())
		right := here.token(t)
		if len(right) < 16 || right == elsewhere.token(t) {
			t.Fatalf("the tokens are %q and %q", right, elsewhere.token(t))
		}
		for name, given := range map[string]string{
			"none": "", "a guess": "guess", "that of another cluster": elsewhere.token(t), "the beginning": right[:len(right)-1],
			"more": right + "a", "in lower case": strings.ToLower(right), "with a space": right + " ",
		} {
			if err := guard.Admit(t.Context(), given); !errors.Is(err, wire.ErrToken) {
				t.Errorf("%s: %v", name, err)
			}
		}
		must.Succeed(t, guard.Admit(t.Context(), right)) // The right one.
		if strings.Contains(log.String(), right) || log.Len() > 0 {
			t.Errorf("the log says %s", log.String())
		}
	})
}

func TestReplacedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeSecrets{}
		guard, user := n.guard(&bytes.Buffer{}), token.NewCredential(n, "shop")
		guard.Prepare(t.Context())
		before := must.Get(user.Token(t.Context(), "")).In(t)
		for name, rotate := range map[string]func(){
			"set":     func() { n.set("another-token-of-an-admin\n") },
			"emptied": func() { n.set("") },
			"deleted": func() { n.mu.Lock(); n.secret = nil; n.mu.Unlock() },
		} {
			rotate()
			// The new token works at once, even if it does not exist yet.
			now, err := user.Token(t.Context(), before)
			if err == nil && now == "" {
				if err := guard.Admit(t.Context(), now); !errors.Is(err, wire.ErrToken) {
					t.Errorf("%s: without a token: %v", name, err)
				}
				now, err = user.Token(t.Context(), now)
			}
			if err != nil || now == before || now == "" {
				t.Fatalf("%s: the token is %q after %q, %v", name, now, before, err)
			}
			if err := guard.Admit(t.Context(), now); err != nil {
				t.Errorf("%s: the new token: %v", name, err)
			}
			if err := guard.Admit(t.Context(), before); !errors.Is(err, wire.ErrToken) {
				t.Errorf("%s: the old token: %v", name, err)
			}
			before = now
		}
		n.set("one-more-token-of-an-admin")
		<-time.After(5 * time.Second)
		if err := guard.Admit(t.Context(), before); !errors.Is(err, wire.ErrToken) {
			t.Errorf("the old token, 5 seconds later: %v", err)
		}
	})
}

// Replicas that start at the same time share the token of the first write.
func TestReplicasShareAToken(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{"without a Secret": nil, "with an empty one": token.NewSecret("shop")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeSecrets{secret: secret, before: func() { <-time.After(time.Second) }}
				var all []*token.Guard
				var replicas sync.WaitGroup
				for range 5 {
					g := n.guard(&bytes.Buffer{})
					all = append(all, g)
					replicas.Go(func() { g.Prepare(t.Context()) })
				}
				replicas.Wait()
				for i, g := range all {
					if err := g.Admit(t.Context(), n.token(t)); err != nil {
						t.Errorf("replica %d: %v", i, err)
					}
				}
				if n.writes != 1 {
					t.Errorf("%d tokens were written", n.writes)
				}
			})
		})
	}
}

// Without a readable token, no request is admitted.
func TestAdmitsNothingWithoutToken(t *testing.T) {
	empty := token.NewSecret("shop")
	short, odd := token.NewSecret("shop"), token.NewSecret("shop")
	short.Data = map[string][]byte{"token": []byte("short")}
	odd.Data = map[string][]byte{"token": []byte("a token that has spaces")}
	for name, c := range map[string]struct {
		secret *corev1.Secret
		deny   string
		log    string
	}{
		"may not get":    {nil, "get", "requires get and update"},
		"may not create": {nil, "create", "kubectl create secret generic setpoint-inspect -n shop"},
		"may not update": {empty, "update", "requires update"},
		"a short token":  {short, "", "at least 16 printable"},
		"an odd token":   {odd, "", "without spaces"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				n := &fakeSecrets{secret: c.secret, deny: map[string]error{c.deny: forbidden(c.deny)}}
				guard := n.guard(&log)
				for _, given := range []string{"", "short", "a token that has spaces", "anything-that-is-long-enough"} {
					err := guard.Admit(t.Context(), given)
					if err == nil || errors.Is(err, wire.ErrToken) || !strings.Contains(err.Error(), "Secret shop/setpoint-inspect") {
						t.Errorf("%q: %v", given, err)
					}
				}
				if got := log.String(); !strings.Contains(got, c.log) || strings.Count(got, "\n") != 1 {
					t.Errorf("the log says %q", got)
				}
				n.mu.Lock()
				n.deny = nil
				n.mu.Unlock()
				n.set("a-token-that-an-admin-wrote")
				must.Succeed(t, guard.Admit(t.Context(), "a-token-that-an-admin-wrote")) // Once it may, and there is one.
			})
		})
	}
}

// An API server that is unreachable for longer than maxAge closes the endpoint.
func TestAdmitsNothingWithoutAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeSecrets{}
		guard := n.guard(&bytes.Buffer{})
		guard.Prepare(t.Context())
		right := n.token(t)
		n.mu.Lock()
		n.deny = map[string]error{"get": errors.New("connection refused")}
		n.mu.Unlock()
		must.Succeed(t, guard.Admit(t.Context(), right)) // Just read.
		<-time.After(5 * time.Second)
		if err := guard.Admit(t.Context(), right); err == nil {
			t.Error("admitted although the Secret cannot be read")
		}
	})
}

// Wrong tokens cause about one read per second, and do not delay the right one.
func TestWrongTokensAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &fakeSecrets{}
		guard := n.guard(&bytes.Buffer{})
		guard.Prepare(t.Context())
		right, began := n.token(t), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var guessing sync.WaitGroup
		for i := range 50 {
			guessing.Go(func() {
				for ctx.Err() == nil {
					if guard.Admit(ctx, fmt.Sprint("guess-", i)) == nil {
						t.Error("a guess is admitted")
					}
				}
			})
		}
		for range 20 {
			<-time.After(300 * time.Millisecond)
			start := time.Now()
			if err := guard.Admit(ctx, right); err != nil || time.Since(start) > 0 {
				t.Errorf("the right token: %v after %s", err, time.Since(start))
			}
		}
		guessing.Wait()
		if seconds := int(time.Since(began) / time.Second); n.reads > seconds+5 {
			t.Errorf("%d readings in %d seconds", n.reads, seconds)
		}
	})
}

func TestMissingPermission(t *testing.T) {
	n := &fakeSecrets{deny: map[string]error{"get": forbidden("get")}}
	if _, err := token.NewCredential(n, "shop").Token(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "get the Secret shop/setpoint-inspect with the token of the inspect endpoint: ") {
		t.Errorf("%v", err)
	}
}

// process is what is read.
type process struct{ inspect.Source }

func (process) Process(context.Context) (inspect.Process, error) { return inspect.Process{}, nil }

// A user reads a process before there is a Secret, and after a rotation.
func TestReadProcessWithSecret(t *testing.T) {
	n := &fakeSecrets{}
	var log bytes.Buffer
	server := httptest.NewServer(wire.Handler(process{}, n.guard(&log)))
	defer server.Close()
	base := must.Get(url.Parse(server.URL)).In(t)
	user := wire.NewClient("setpoint", base, nil, token.NewCredential(n, "shop"))
	must.Get(user.Process(t.Context())).In(t) // Before there is a Secret.
	n.set("another-token-of-an-admin")
	stranger := &fakeSecrets{}
	stranger.set("a-token-of-another-cluster")
	_, err := wire.NewClient("setpoint", base, nil, token.NewCredential(stranger, "shop")).Process(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the process setpoint denied the request: missing or invalid token") {
		t.Errorf("with the token of another cluster: %v", err)
	}
	must.Get(user.Process(t.Context())).In(t) // After the rotation.
	response, err := http.Get(server.URL + wire.Prefix + "process")
	must.Succeed(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: status %d", response.StatusCode)
	}
	if log.Len() > 0 {
		t.Errorf("the log says %s", log.String())
	}
}
