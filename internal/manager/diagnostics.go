package manager

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// leveled is a log handler whose level can change, as those of package flags. A Go program may have
// another one.
type leveled interface{ LogLevel() *slog.LevelVar }

// logLevel returns the level of the log; "" if it cannot change.
func (m *Manager) logLevel() string {
	log, changeable := m.log.Handler().(leveled)
	if !changeable {
		return ""
	}
	return strings.ToLower(log.LogLevel().Level().String())
}

var errFixedLogLevel = errors.New("the program has a logger of its own, whose level cannot be changed here")

// SetLogLevel implements inspect.Source.
func (s *source) SetLogLevel(_ context.Context, name string) error {
	level, err := inspect.ParseLogLevel(name)
	if err != nil {
		return err
	}
	log, changeable := s.manager.log.Handler().(leveled)
	if !changeable {
		return errFixedLogLevel
	}
	before := s.manager.logLevel()
	// One of the two levels shows the line.
	if level > log.LogLevel().Level() {
		s.manager.log.Info("log level changed", "from", before, "to", name)
		log.LogLevel().Set(level)
		return nil
	}
	log.LogLevel().Set(level)
	s.manager.log.Info("log level changed", "from", before, "to", name)
	return nil
}

// Diagnostic implements inspect.Source.
func (s *source) Diagnostic(_ context.Context, name string) ([]byte, error) {
	return serving.Diagnostic(name, s.manager.metrics)
}
