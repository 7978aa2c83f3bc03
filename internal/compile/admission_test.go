package compile

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// describeAdmission prints the program of an AdmissionController.
func describeAdmission(c *Compiled) string {
	var text strings.Builder
	line := lineOf(&text)
	p := c.Admission
	line("name", p.Name)
	line("configuration", p.Configuration)
	line("owner", p.Owner.Kind+" "+p.Owner.Name)
	for _, w := range p.Webhooks {
		line("webhook", describeWebhook(w))
	}
	describeRest(line, c)
	return text.String()
}

func describeWebhook(w admission.Webhook) string {
	text := w.Name + map[bool]string{true: " mutates", false: " validates"}[w.Mutates]
	say := func(name string, value any) {
		if !slices.Contains([]string{"[]", "false", "<none>", ""}, fmt.Sprint(value)) {
			text += fmt.Sprint(", ", name, " ", value)
		}
	}
	say("of", w.Rules)
	say("objects", metav1.FormatLabelSelector(w.Objects))
	say("namespaces", metav1.FormatLabelSelector(w.Namespaces))
	say("spared", w.ExemptNamespaces)
	say("if", w.Conditions)
	say("ignored", w.Ignore)
	say("within", w.Timeout)
	say("again", w.Reinvoke)
	return text
}
