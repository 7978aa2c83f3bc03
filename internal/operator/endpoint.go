package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode"
)

// socketHost is the host of webhook URLs that lead to a socket. Users see it in errors.
const socketHost = "operator"

// endpoint is where the process of an operator serves.
type endpoint struct {
	// base is the URL before paths, such as http://operator.
	base string
	// socket is a Unix socket; "" for a port.
	socket string
	// authorization is the header of calls; "" for none.
	authorization string
	client        *http.Client
}

func socketEndpoint(path string) *endpoint {
	e := &endpoint{base: "http://" + socketHost, socket: path}
	e.client = &http.Client{Transport: &http.Transport{DialContext: e.dial}}
	return e
}

// parseEndpoint parses the URL of --operator: http, https, or unix with the path of a socket.
func parseEndpoint(text string) (*endpoint, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch {
	case parsed.Scheme == "unix" && parsed.Host == "" && strings.HasPrefix(parsed.Path, "/"):
		return socketEndpoint(parsed.Path), nil
	case parsed.Scheme == "unix":
		return nil, fmt.Errorf("%q: want unix:///PATH/OF/SOCKET", text)
	case parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "":
		return nil, fmt.Errorf("%q: want a URL such as http://127.0.0.1:8000 or unix:///run/operator/socket", text)
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, fmt.Errorf("%q: must have no query and no fragment", text)
	}
	return &endpoint{base: strings.TrimSuffix(text, "/"), client: &http.Client{}}, nil
}

// Remote is an operator that runs already.
type Remote struct {
	// URL is where it serves.
	URL string
	// TokenFile is a file with the token that it requires; "" for none.
	TokenFile string
}

// Check checks the URL, and that the token can be read.
func (r Remote) Check() error {
	_, err := r.open()
	return err
}

func (r Remote) open() (*endpoint, error) {
	e, err := parseEndpoint(r.URL)
	if err != nil {
		return nil, fmt.Errorf("--operator: %w", err)
	}
	if r.TokenFile == "" {
		return e, nil
	}
	data, err := os.ReadFile(r.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("--operator-token-file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, unicode.IsSpace) {
		return nil, fmt.Errorf("--operator-token-file: %s must have one token, a line without spaces", r.TokenFile)
	}
	e.authorization = "Bearer " + token
	return e, nil
}

func (e *endpoint) String() string {
	if e.socket != "" {
		return "unix://" + e.socket
	}
	return e.base
}

// dial connects to the socket for its host, and to all other addresses by the network.
func (e *endpoint) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if e.routed(address) {
		network, address = "unix", e.socket
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// routed reports whether calls to an address go to the socket.
func (e *endpoint) routed(address string) bool {
	return e.socket != "" && address == net.JoinHostPort(socketHost, "80")
}

// authorize returns the Authorization header for a URL; "" for those of other programs.
func (e *endpoint) authorize(target string) string {
	if strings.HasPrefix(target, e.base+"/") {
		return e.authorization
	}
	return ""
}

// get returns the body of the response at a path with the status 200, of at most limit bytes.
func (e *endpoint) get(ctx context.Context, path string, timeout time.Duration, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := e.base + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	if authorization := e.authorize(target); authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := e.client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("GET %s: no response within %s", target, timeout)
		}
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", target, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s returned %s: %.200s", target, response.Status, strings.TrimSpace(string(body)))
	case int64(len(body)) > limit:
		return nil, fmt.Errorf("GET %s returned more than %d bytes", target, limit)
	}
	return body, nil
}
