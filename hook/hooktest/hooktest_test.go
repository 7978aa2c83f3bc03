package hooktest_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/hooktest"
)

func TestFunc(t *testing.T) {
	hooktest.RunDecorator(t, func(_ *testing.T, logic hook.Hook) hook.Hook { return hook.Func(logic.Call) })
}

func TestCustomizerFunc(t *testing.T) {
	hooktest.RunCustomizer(t, func(_ *testing.T, logic hook.Customizer) hook.Customizer {
		return hook.CustomizerFunc(logic.Customize)
	})
}

func TestHandlerFunc(t *testing.T) {
	hooktest.RunHandler(t, func(_ *testing.T, logic hook.Handler) hook.Handler { return hook.HandlerFunc(logic.Handle) })
}
