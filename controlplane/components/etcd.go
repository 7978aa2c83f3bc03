package components

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"go.etcd.io/etcd/server/v3/embed"
)

func etcd(args []string) int {
	if err := runEtcd(args); err != nil {
		fmt.Fprintln(os.Stderr, "etcd:", err)
		return 1
	}
	return 0
}

func runEtcd(args []string) error {
	cfg, ready, err := parseEtcd(args)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return err
	}
	defer server.Close()
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return err
	case <-signals:
		return nil
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return fmt.Errorf("tell that etcd is ready: %w", err)
	}
	select {
	case err := <-server.Err():
		return err
	case <-server.Server.StopNotify():
		return errors.New("the server stopped by itself")
	case <-signals:
		return nil
	}
}

// parseEtcd understands the flags of etcd itself and two of ours.
func parseEtcd(args []string) (cfg *embed.Config, ready string, err error) {
	cfg = embed.NewConfig()
	flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
	socket := flags.String("unix-socket", "", "the socket to serve on, relative to the working directory")
	flags.StringVar(&ready, "ready-file", "", "a file to write once etcd serves requests")
	cfg.AddFlags(flags) // which also sets defaults that NewConfig does not
	if err := flags.Parse(args); err != nil {
		return nil, "", err
	}
	cfg.ListenClientUrls = []url.URL{{Scheme: "unix", Host: *socket}}
	// A single member needs no peer listener. The advertised addresses are required, but
	// never dialled.
	cfg.ListenPeerUrls = nil
	return cfg, ready, nil
}
