package main

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// The currencies that the objects go through, one after the other.
const (
	initialCurrency = "USD"
	changedCurrency = "CHF"
	outageCurrency  = "JPY"
	failingCurrency = "GBP"
)

// rateOf is what a euro is worth, as the ConfigMaps should have it.
func rateOf(currency string) string {
	return map[string]string{initialCurrency: "1.1901", changedCurrency: "1.0824", outageCurrency: "130.32",
		failingCurrency: "0.8521"}[currency]
}

// rateService is what the operators ask. It can be out of order.
type rateService struct {
	server  *http.Server
	address string
	calls   atomic.Int64
	broken  atomic.Bool
}

func serveRates() (*rateService, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve rates: %w", err)
	}
	s := &rateService{address: "http://" + listener.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /latest", s.latest)
	s.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.server.Serve(listener) }() // It ends when it is closed.
	return s, nil
}

func (s *rateService) latest(w http.ResponseWriter, r *http.Request) {
	s.calls.Add(1)
	currency := r.FormValue("symbols")
	rate := rateOf(currency)
	switch {
	case s.broken.Load():
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	case rate == "":
		fmt.Fprint(w, `{"rates":{}}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"rates":{"%s":%s}}`, currency, rate)
	}
}
