package setpoint

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// objectContext is what Call and ComposeContext have in common.
type objectContext struct{ call sdk.Invocation }

// Event records a Kubernetes Event on the object. The reason is one word in CamelCase,
// the message a sentence.
func (s *objectContext) Event(reason, format string, args ...any) {
	s.call.AddEvent("Normal", reason, fmt.Sprintf(format, args...))
}

// Warn is Event with type Warning.
func (s *objectContext) Warn(reason, format string, args ...any) {
	s.call.AddEvent("Warning", reason, fmt.Sprintf(format, args...))
}

// Condition sets a condition of the object's status by its type. It uses Type, Status,
// Reason and Message; Setpoint sets the transition time and the observed generation.
func (s *objectContext) Condition(condition metav1.Condition) {
	s.call.AddCondition(condition)
}

// Message sets a sentence on the state of the object.
func (s *objectContext) Message(format string, args ...any) {
	s.call.Output.Message = fmt.Sprintf(format, args...)
}

// Requeue calls the function again after this time, or when the object changes otherwise,
// although its writes succeed. Requeue(0) and a negative time mean immediately, through
// the rate limiter: handlers after their Backoff, functions of Compose once a second.
func (s *objectContext) Requeue(after time.Duration) {
	s.call.Output.RequeueAfter = max(after, hook.Immediately)
}
