package dashboard

import (
	"cmp"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// NewForConfig is New with a client of a cluster that logs what users change.
func NewForConfig(config *rest.Config, o Options) (*Server, error) {
	client, err := userclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("create a client for the users of the dashboard: %w", err)
	}
	client.OnWrite = writeLog{cmp.Or(o.Log, slog.Default())}.log
	o.Cluster = client
	return New(o)
}

// writeLog logs the writes of users.
type writeLog struct{ logger *slog.Logger }

// log logs what a user changed, or why it was refused.
func (l writeLog) log(user, verb string, ref object.Ref, err error, took time.Duration) {
	resource := schema.GroupResource{Group: ref.Group, Resource: ref.Plural}
	l.logger.Info("dashboard write", "user", user, "verb", verb, "resource", resource.String(),
		"namespace", ref.Namespace, "name", ref.Name, "took", took.String(), "refusal", redactedError(resource, err))
}

// maxLoggedError limits the bytes of a logged error, which may quote the whole request.
const maxLoggedError = 500

// quotedText matches the values that an error quotes.
var quotedText = regexp.MustCompile(`(?s)"(\\.|[^"\\])*"?|` + "`[^`]*`?")

// redactedError returns an error for the log. It removes quoted values of Secrets.
func redactedError(resource schema.GroupResource, err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if resource == (schema.GroupResource{Resource: "secrets"}) {
		text = quotedText.ReplaceAllString(text, `"…"`)
	}
	if len(text) > maxLoggedError {
		text = strings.ToValidUTF8(text[:maxLoggedError], "") + "…"
	}
	return text
}
