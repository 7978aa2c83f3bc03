package webhook_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestIndexRequest(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + string(body)
		if strings.Contains(got, "unknown") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	w := open(t, webhook.Config{URL: server.URL})
	for _, c := range []struct {
		request *hook.IndexRequest
		want    string
		code    int
	}{
		{&hook.IndexRequest{APIVersion: "v1", Kind: "Rate", First: true, Complete: true},
			`{"controller":null,"apiVersion":"v1","kind":"Rate","first":true,"objects":[],"deleted":[],"complete":true}`, 0},
		{&hook.IndexRequest{Controller: []byte(`{"a":1}`), APIVersion: "v1", Kind: "unknown", Objects: []json.RawMessage{[]byte(`{"b":1}`), []byte(`{"c":2}`)}, Deleted: []hook.DeletedObject{{Namespace: "x", Name: "y", UID: "z"}, {Name: "n", UID: "u"}}},
			`{"controller":{"a":1},"apiVersion":"v1","kind":"unknown","first":false,"objects":[{"b":1},{"c":2}],` +
				`"deleted":[{"namespace":"x","name":"y","uid":"z"},{"namespace":"","name":"n","uid":"u"}],"complete":false}`, http.StatusNotFound},
	} {
		err := w.Index(t.Context(), c.request)
		if got != "POST "+c.want || hook.StatusCode(err) != c.code || (err == nil) != (c.code == 0) {
			t.Errorf("sent %s\nwant %s\nerror %v", got, c.want, err)
		}
	}
}

// The timeout of a stream ends with the headers of the response.
func TestNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := make(chan string)
		var observed []call.Result
		w := openPipe(t, webhook.Config{Timeout: time.Second}, func(_ int, conn net.Conn) {
			defer conn.Close()
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil || r.Method != http.MethodGet || r.Header.Get("Content-Type") != "" {
				t.Errorf("%+v, %v", r, err)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
			for line := range next {
				fmt.Fprintln(conn, line)
			}
		}, call.Config{Observe: func(c call.Result) { observed = append(observed, c) }})
		body := must.Get(w.Notifications(t.Context())).In(t)
		lines := bufio.NewScanner(body)
		<-time.After(time.Minute)
		next <- "one"
		if !lines.Scan() || lines.Text() != "one" {
			t.Errorf("got %q, %v", lines.Text(), lines.Err())
		}
		close(next)
		if lines.Scan() {
			t.Errorf("got %q after the end", lines.Text())
		}
		body.Close()
		if len(observed) != 1 || observed[0].HookType != call.Notifications || observed[0].Code != http.StatusOK {
			t.Errorf("observed %+v", observed)
		}
	})
}

func TestNotificationsFail(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for path, c := range map[string]struct {
		timeout time.Duration
		want    string
	}{
		"/silent": {50 * time.Millisecond, "no response within 50ms"},
		"/no":     {time.Minute, "returned 403 Forbidden"},
	} {
		_, err := open(t, webhook.Config{URL: server.URL + path, Timeout: c.timeout}).Notifications(t.Context())
		if want := "GET " + server.URL + path + ": " + c.want; err == nil || err.Error() != want {
			t.Errorf("%s: %v", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, webhook.Config{URL: server.URL + "/silent"}).Notifications(ctx); err == nil {
		t.Error("a stream after the end of its context")
	}
}
