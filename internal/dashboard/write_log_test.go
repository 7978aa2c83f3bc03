package dashboard

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestWritesAreLogged(t *testing.T) {
	var log bytes.Buffer
	l := writeLog{slog.New(slog.NewTextHandler(&log, nil))}
	ingress := object.Ref{Kind: object.Kind{Group: "networking.k8s.io", Plural: "ingresses", Kind: "Ingress"}, Namespace: "shop", Name: "a"}
	secret := object.Ref{Kind: object.Kind{Plural: "secrets", Kind: "Secret"}, Namespace: "shop", Name: "a"}
	refusal := errors.New(`Secret "a" is invalid: data[pass]: Invalid value: "hunt\"er2": no, nor "hunter2`)
	l.log("ann", "update", ingress, nil, time.Second)
	l.log("ann", "update", secret, refusal, time.Second)
	l.log("ann", "update", ingress, errors.New("quoting \"hunter3\" and "+strings.Repeat("ä", 4000)), time.Second)
	got := log.String()
	if !strings.Contains(got, "resource=ingresses.networking.k8s.io namespace=shop name=a") || !strings.Contains(got, "resource=secrets") {
		t.Errorf("resource not logged: %s", got)
	}
	if strings.Contains(got, "er2") || !strings.Contains(got, "data[pass]") || !strings.Contains(got, "hunter3") || len(got) > 2000 {
		t.Errorf("error logged as: %s", got)
	}
}
