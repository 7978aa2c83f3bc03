// Command rates is a rate service to try the example with: the rates are what one
// sets them to, and so are the troubles.
//
//	GET    /latest?symbols=USD   returns {"rates":{"USD":1.1901}}
//	PUT    /USD                  sets the rate to the body; nonsense is a rate too
//	DELETE /USD                  removes the currency
//	PUT    /trouble              "503" makes all responses fail with it, "1m" delays them
//	DELETE /trouble              ends the trouble
package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

func main() {
	s := &service{rates: map[string]string{
		"CAD": "1.4786", "CHF": "1.0824", "GBP": "0.8521", "JPY": "130.32", "PLN": "4.5483", "USD": "1.1901",
	}}
	server := &http.Server{
		Addr:              net.JoinHostPort(cmp.Or(os.Getenv("HOST"), "localhost"), cmp.Or(os.Getenv("PORT"), "8000")),
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log.Info("listening", "address", server.Addr)
	if err := server.ListenAndServe(); err != nil {
		log.Error("serve rates", "error", err)
		os.Exit(1)
	}
}

// service has the rates.
type service struct {
	mu      sync.Mutex
	rates   map[string]string
	failure string
}

func (s *service) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /latest", s.latest)
	mux.HandleFunc("/trouble", func(_ http.ResponseWriter, r *http.Request) {
		body := readValue(r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failure = body
	})
	mux.HandleFunc("/{currency}", func(_ http.ResponseWriter, r *http.Request) {
		body, currency := readValue(r), strings.ToUpper(r.PathValue("currency"))
		s.mu.Lock()
		defer s.mu.Unlock()
		s.rates[currency] = body
	})
	return mux
}

// readValue returns the body of a PUT, and "" for a DELETE.
func readValue(r *http.Request) string {
	if r.Method == http.MethodDelete {
		return ""
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20)) // Who breaks off has said enough.
	return strings.TrimSpace(string(body))
}

func (s *service) latest(w http.ResponseWriter, r *http.Request) {
	symbol := r.FormValue("symbols")
	s.mu.Lock()
	rate, failure := s.rates[symbol], s.failure
	s.mu.Unlock()

	if status, err := strconv.Atoi(failure); err == nil {
		http.Error(w, http.StatusText(status), status)
		return
	}
	if delay, err := time.ParseDuration(failure); err == nil {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if rate == "" {
		fmt.Fprintln(w, `{"rates":{}}`)
		return
	}
	fmt.Fprintf(w, "{\"rates\":{%q:%s}}\n", symbol, rate) //nolint:gosec // Who sets a rate to nonsense wants nonsense.
}
