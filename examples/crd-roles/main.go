// Command crd-roles is the hook of the crd-roles controller.
//
// Setpoint posts a CustomResourceDefinition, and the hook returns its ClusterRoles: with
// a certain label, one to view and one to edit objects of the kind. roles.go has the
// logic; this file serves it over HTTP with Go's standard library only.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, log, net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")))
	stop()
	if err != nil {
		log.Error("serve the hook", "error", err)
		os.Exit(1)
	}
}

// serve serves until ctx is done, and waits for calls in flight.
func serve(ctx context.Context, log *slog.Logger, address string) error {
	mux := http.NewServeMux()
	mux.Handle("POST /sync", handleSync(log))
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	log.Info("listening", "address", address)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// handleSync serves sync over HTTP.
func handleSync(log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req Request
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			http.Error(w, fmt.Sprintf("not a sync request: %v", err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(sync(&req)); err != nil {
			log.Error("write response", "object", req.Object.Metadata.Name, "error", err)
		}
	}
}
