package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
)

// runProgram is a Go program with the SDK.
func runProgram(ctx context.Context, kubeconfig string) error {
	app := setpoint.New("bench")
	setpoint.For[corev1.Pod](app).Mutate("inject", func(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
		inject(r.Object)
		return nil
	}, setpoint.FailurePolicy(setpoint.Fail), setpoint.IncludeSystemNamespaces())
	return app.Run(ctx, setpoint.Options{Kubeconfig: kubeconfig, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
}

// runHook is a hook in Go, asked over HTTP.
func runHook(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", address, err)
	}
	fmt.Println("http://" + listener.Addr().String())
	server := &http.Server{Handler: http.HandlerFunc(respond), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on loopback: %w", err)
	}
	return nil
}

// respond says what the pod is to be.
func respond(w http.ResponseWriter, r *http.Request) {
	var review struct{ Object corev1.Pod }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	inject(&review.Object)
	_ = json.NewEncoder(w).Encode(map[string]any{"allowed": true, "object": &review.Object}) // who asked may be gone
}
