package bundle

import (
	"regexp"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// masked replaces a secret.
const masked = "***MASKED***"

// secretWord is in the names of what holds a secret. The word pass must end there, and begin as a word does in a name:
// passed and bypass are others.
const secretWord = `(?:passwords?|passwd|passphrase|(?:\b|_)pass\b|(?-i:[a-z]Pass|PASS)\b|pwd|secrets?|tokens?|api[-_]?keys?|access[-_]?keys?|private[-_]?keys?|credentials?|authorization|cookie)`

// restOfKey is the end of a private key whose begin was cut off, such as in a log that begins with it.
var restOfKey = regexp.MustCompile(`(?m)^(?:.*[A-Za-z0-9+/=]{40,}.*\n)*(?:.*\n)?.*-----END [A-Z ]*PRIVATE KEY-----`)

var privateKey = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)

// hints are in every line in which the patterns may find something. They are much faster, and few lines of a
// large file have one.
var hints = []string{"pass", "pwd", "secret", "token", "key", "credential", "authorization", "cookie", "bearer", "basic", "://", "eyj",
	"akia", "gh", "glpat-", "xox", "aiza", "@tcp(", "@unix(", "curl", "sig=", "signature=", "code="}

// secretPatterns find secrets in a line by their form, or by the name before them. The first group stays.
var secretPatterns = []*regexp.Regexp{
	// JSON Web Tokens, such as those of ServiceAccounts.
	regexp.MustCompile(`()\beyJ[\w-]{8,}\.[\w-]{8,}\.?[\w-]*`),
	// Keys of well-known services.
	regexp.MustCompile(`()\b(?:AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}|glpat-[\w-]{20,}|xox[baprs]-[\w-]{10,}|AIza[\w-]{35})`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)[ \t]+)[\w.~+/=-]{6,}`),
	// Users and passwords in URLs.
	regexp.MustCompile(`(://)[^/\s"'@]+@`),
	// Signatures and codes in URLs, which are as good as a password.
	regexp.MustCompile(`(?i)((?:[?&]|\\u0026)(?:sig|(?:x-[\w-]*-)?signature|code)=)[^&\s"'\\]+`),
	// Users and passwords of databases without a scheme, and of curl.
	regexp.MustCompile(`(\b[\w.-]+:)[^\s"']+(?:@tcp|@unix)\(`),
	regexp.MustCompile(`(\bcurl\b.*[ \t](?:-u|--user)[ \t]*[^\s:]+:)[^\s"']+`),
	// Flags with their value in the next word.
	regexp.MustCompile(`(?i)(--?[\w-]*` + secretWord + `[ \t]+)[^\s-][^\s]*`),
}

// secretField is a name with a value after it: of JSON, YAML, flags, queries of URLs, code.
var secretField = regexp.MustCompile(`(?i)((?:\\?["'])?([\w.$-]*` + secretWord +
	`[\w-]*)(?:\\?["'])?[ \t]*(?::=|[:=])[ \t]*)(\\"(?:[^"\\]|\\[^"])*\\"|"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,;&"'}\])]+|["'].*)`)

// referenceSuffix are the ends of names whose value says where a secret is, and not what.
var referenceSuffix = regexp.MustCompile(`(?i)(name|ref|file|path|namespace|key|type|kind)$`)

// keyOfService is a key that is a secret itself.
var keyOfService = regexp.MustCompile(`(?i)(api|access|private|secret)[-_]?key$`)

func isReference(name string) bool {
	return referenceSuffix.MatchString(name) && !keyOfService.MatchString(name)
}

// maskText masks what looks like a secret in a text.
func maskText(text string) string {
	if strings.Contains(text, "PRIVATE KEY") {
		text = restOfKey.ReplaceAllString(privateKey.ReplaceAllString(text, masked), masked)
	}
	if !hasHint(text) {
		return text
	}
	var shown strings.Builder
	for line := range strings.Lines(text) {
		shown.WriteString(maskLine(line))
	}
	return shown.String()
}

func hasHint(text string) bool {
	lower := strings.ToLower(text)
	return slices.ContainsFunc(hints, func(hint string) bool { return strings.Contains(lower, hint) })
}

func maskLine(line string) string {
	if !hasHint(line) {
		return line
	}
	for _, pattern := range secretPatterns {
		line = pattern.ReplaceAllString(line, "${1}"+masked)
	}
	return secretField.ReplaceAllStringFunc(line, maskField)
}

// maskField masks the value of a field, unless it is a reference, a number or a boolean.
func maskField(field string) string {
	parts := secretField.FindStringSubmatch(field)
	name, value := parts[2], parts[3]
	plain := strings.Trim(value, `\"'`)
	if isReference(name) || plain == "" || slices.Contains([]string{"true", "false", "null", "{}", "[]", "{", "[", "|", ">", masked},
		plain) {
		return field
	}
	quote := value[:len(value)-len(strings.TrimLeft(value, `\"'`))]
	return parts[1] + quote + masked + quote
}

// harmlessVariables are variables whose values are shown.
var harmlessVariables = regexp.MustCompile(`^(?:GO(?:MEMLIMIT|GC|MAXPROCS|DEBUG)|POD_NAME|POD_NAMESPACE|SETPOINT_NAMESPACES|TZ|LANG)$`)

// maskObject masks an object of the API, and drops managed fields and data.
func maskObject(o map[string]any) {
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	maskValue(o) // With the data: copies of a Secret's values are found by them.
	for _, data := range []string{"data", "stringData", "binaryData"} {
		delete(o, data)
	}
}

// maskValue masks a part of an object in place and returns it: values of Secrets, variables, arguments after
// flags, and what looks like a secret in any text.
func maskValue(part any) any {
	switch part := part.(type) {
	case map[string]any:
		if object.IsSecret(part) {
			redact.Secret(part, masked)
		}
		maskVariable(part)
		for name, value := range part {
			switch value := value.(type) {
			case string:
				part[name] = maskNamed(name, value)
			case []any:
				part[name] = maskList(name, value)
			default:
				part[name] = maskValue(value)
			}
		}
	case []any:
		maskArguments(part)
		for i, value := range part {
			part[i] = maskValue(value)
		}
	case string:
		return maskText(part)
	}
	return part
}

// maskList masks a list in a field, whose name counts for the texts in it.
func maskList(name string, all []any) any {
	for i, value := range all {
		if text, ok := value.(string); ok && maskNamed(name, text) == masked {
			all[i] = masked
		}
	}
	return maskValue(all)
}

// maskNamed masks the text of a field.
func maskNamed(name, text string) string {
	const separator = ": "
	if object.IsLastApplied(name) || strings.HasPrefix(maskText(name+separator+text), name+separator+masked) {
		return masked // The name says that it is a secret, or has a copy of one.
	}
	return maskText(text)
}

// maskVariable masks the value of an environment variable.
func maskVariable(part map[string]any) {
	name, named := part["name"].(string)
	if _, literal := part["value"].(string); named && literal && len(part) == 2 && !harmlessVariables.MatchString(name) {
		part["value"] = masked
	}
}

var secretFlag = regexp.MustCompile(`(?i)^--?[\w-]*` + secretWord + `$`)

// maskArguments masks arguments after flags whose names say that they are secrets.
func maskArguments(all []any) {
	for i := 1; i < len(all); i++ {
		flag, isText := all[i-1].(string)
		if value, ok := all[i].(string); ok && isText && secretFlag.MatchString(flag) && !strings.HasPrefix(value, "-") {
			all[i] = masked
		}
	}
}
