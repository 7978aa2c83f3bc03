package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/operator"
)

// describe returns an operator without running it. Files are imported, but no handler is called.
func (f *operatorFlags) describe(ctx context.Context, in manager.Cluster, from clusterFlags, files []string,
	stderr io.Writer) (*operator.Operator, error) {
	o := operator.Options{Config: in.Config, Log: slog.New(slog.DiscardHandler), Remote: f.remote}
	if o.Remote.URL != "" {
		return operator.Describe(ctx, o)
	}
	source, err := f.source(files)
	if err != nil {
		return nil, usageError{err}
	}
	source.Kubeconfig = operator.Kubeconfig{File: from.kubeconfig, Context: from.context}
	source.Stdout, source.Stderr = stderr, stderr // What a script prints is no part of the output.
	o.Python = &source
	return operator.Describe(ctx, o)
}

// checkDescribed checks the flags of an operator that is not run.
func (f *operatorFlags) checkDescribed(files []string) error {
	switch {
	case f.remote.URL == "" && f.remote.TokenFile != "":
		return errors.New("--operator-token-file requires --operator")
	case f.remote.URL == "":
		return nil
	case len(files)+len(f.python)+len(f.modules) > 0:
		return errors.New("--operator excludes files and modules")
	}
	return f.remote.Check()
}
