package recording

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Masker replaces values of Secrets in calls by tokens. It is safe for concurrent use.
type Masker struct{ key tokenKey }

// NewMasker returns a Masker with a key of its own.
func NewMasker() *Masker { return &Masker{newTokenKey()} }

// minSecretValue is the length from which a value is looked for outside of Secrets; shorter ones are part of
// ordinary words.
const minSecretValue = 4

// minSecretNumber is the length from which a number is replaced: shorter ones are ports, which Secrets of databases
// have, and where a type wants a number a token is an error.
const minSecretNumber = 6

// Masked is a call with tokens in place of the values of Secrets.
type Masked struct {
	Request  record.Request
	Response json.RawMessage
	// HasSecrets is false for a call without Secrets, which is as it was.
	HasSecrets bool
	// Text replaces the same values in other texts about the call.
	Text func(string) string
}

// Mask masks a call about an object of a kind: the values in Secrets, and in all other texts that contain one,
// except for names. The Secrets in further texts count too.
func (m *Masker) Mask(call *record.Call, about object.Resource, further ...json.RawMessage) Masked {
	masked := Masked{Request: call.Request, Response: call.Response.JSON(call.Request.ControllerType), Text: strings.Clone}
	s := &secrets{key: &m.key, found: about.GroupKind().IsSecret(), about: about.GroupKind().IsSecret()}
	masked.Request.EachObject(s.collect)
	s.collect(masked.Response)
	for _, text := range further {
		s.collect(text)
	}
	if !s.found {
		return masked
	}
	s.build()
	masked.HasSecrets, masked.Text = true, s.replacer.Replace
	masked.Request, masked.Response = masked.Request.Map(s.mask), s.mask(masked.Response)
	if s.about && call.Request.Handler != nil {
		s.maskFieldChanges(call.Request.Handler.Changes, masked.Request.Handler.Changes)
	}
	return masked
}

// secrets are the values of the Secrets of one call.
type secrets struct {
	key *tokenKey
	// about means that the call is about a Secret, so that patches are parts of one.
	about bool
	// found means that there is a Secret.
	found bool
	// tokens are those of the values that are looked for.
	tokens   map[string]string
	replacer *strings.Replacer
}

// MayHaveSecret reports whether JSON may contain a Secret. The kind may be written with escapes.
func MayHaveSecret(text json.RawMessage) bool {
	// Quotes are everywhere in JSON, and a search that begins with one is slow.
	return bytes.Contains(text, []byte(`Secret"`)) && bytes.Contains(text, []byte(`"Secret"`)) || bytes.Contains(text, []byte(`\u`))
}

// collect notes the values of the Secrets in JSON.
func (s *secrets) collect(text json.RawMessage) {
	if text == nil || !s.about && !MayHaveSecret(text) {
		return
	}
	value, err := decode(text)
	if err != nil {
		return // It is masked as a whole.
	}
	s.visit(value)
}

func (s *secrets) visit(value any) {
	switch inner := value.(type) {
	case map[string]any:
		if object.IsSecret(inner) {
			s.note(inner)
		}
		for name, each := range inner {
			if members, is := each.(map[string]any); is && s.about && name == "patch" {
				s.note(members)
			}
			s.visit(each)
		}
	case []any:
		for _, each := range inner {
			s.visit(each)
		}
	}
}

// note adds the values of a Secret, or of a patch of one. It changes nothing.
func (s *secrets) note(secret map[string]any) {
	s.found = true
	if s.tokens == nil {
		s.tokens = map[string]string{}
	}
	for _, name := range [...]string{"data", "stringData"} {
		members, _ := secret[name].(map[string]any)
		for _, value := range members {
			text, _ := value.(string)
			if number, is := value.(json.Number); is {
				text = number.String() // Invalid, but it may be the value elsewhere.
			}
			decoded := text
			if used, err := base64.StdEncoding.DecodeString(text); err == nil && name == "data" {
				decoded = string(used)
			}
			token := s.key.token(decoded)
			for _, form := range forms(text, decoded) {
				s.tokens[form] = token
			}
			s.tokens[base64.StdEncoding.EncodeToString([]byte(decoded))] = base64.StdEncoding.EncodeToString([]byte(token))
		}
	}
}

// forms returns a value as it is stored and as it is used in other texts: with and without the line break at its end,
// in URLs, and in JSON.
func forms(stored, used string) []string {
	all := []string{stored}
	for _, value := range [...]string{used, strings.TrimSpace(used)} {
		all = append(all, value, url.QueryEscape(value), url.PathEscape(value), inJSON(value, true), inJSON(value, false))
	}
	return all
}

// inJSON returns a text as in a string of JSON. Some encoders escape the characters of HTML, others do not.
func inJSON(text string, escapeHTML bool) string {
	var quoted bytes.Buffer
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(escapeHTML)
	if err := encoder.Encode(text); err != nil {
		return text
	}
	encoded := bytes.TrimSpace(quoted.Bytes())
	return string(encoded[1 : len(encoded)-1])
}

// build prepares the replacement of values: the longest that fits counts.
func (s *secrets) build() {
	var values []string
	for value := range s.tokens {
		if len(value) >= minSecretValue {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, value := range values {
		pairs = append(pairs, value, s.tokens[value])
	}
	s.replacer = strings.NewReplacer(pairs...)
}

// unreadable replaces a text that is not JSON.
const unreadable = `"` + tokenPrefix + `0000000000000000"`

// mask returns JSON with tokens.
func (s *secrets) mask(text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	value, err := decode(text)
	if err != nil {
		return json.RawMessage(unreadable)
	}
	masked, err := json.Marshal(s.replace(value))
	if err != nil {
		return json.RawMessage(unreadable)
	}
	return masked
}

func decode(text json.RawMessage) (value any, err error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	err = reader.Decode(&value)
	return value, err
}

// replace replaces values in all texts but names and kinds.
func (s *secrets) replace(value any) any {
	switch inner := value.(type) {
	case string:
		return s.replacer.Replace(inner)
	case json.Number:
		if token, is := s.tokens[inner.String()]; is && len(inner) >= minSecretNumber {
			return token
		}
	case []any:
		for i, each := range inner {
			inner[i] = s.replace(each)
		}
	case map[string]any:
		return s.replaceMembers(inner)
	}
	return value
}

func (s *secrets) replaceMembers(members map[string]any) map[string]any {
	isSecret := object.IsSecret(members)
	if isSecret {
		s.maskSecret(members)
	}
	// Other parts of an object may have members of these names with any content.
	_, isObject := members["kind"].(string)
	for name, each := range members {
		metadata, isMap := each.(map[string]any)
		_, isText := each.(string)
		switch {
		case isText && (name == "apiVersion" || name == "kind") || isSecret && (name == "data" || name == "stringData"):
		case name == "metadata" && isObject && isMap:
			s.replaceMetadata(metadata, isSecret)
		case s.about && name == "patch":
			if patch, is := each.(map[string]any); is {
				s.maskSecret(patch)
			}
		case s.about && name == "jsonPatch":
			s.maskPatch(each)
		default:
			members[name] = s.replace(each)
		}
	}
	return members
}

// replaceMetadata replaces values in labels and annotations: the rest identifies the object.
func (s *secrets) replaceMetadata(metadata map[string]any, ofSecret bool) {
	for _, name := range [...]string{"labels", "annotations"} {
		if metadata[name] != nil && (!ofSecret || name != "annotations") {
			metadata[name] = s.replace(metadata[name])
		}
	}
}

// maskSecret replaces the values of a Secret, or of a patch of one.
func (s *secrets) maskSecret(secret map[string]any) {
	object.ReplaceSecretValues(secret, s.tokenAt)
	metadata, _ := secret["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		// A short annotation stays readable, but not the value of a Secret in it. A value may be a part of a token.
		if text, is := value.(string); is && !plainToken.MatchString(text) {
			annotations[name] = s.replacer.Replace(text)
		}
	}
}

// tokenAt returns the token of a value at a path of a Secret.
func (s *secrets) tokenAt(path string, value any) string {
	text, is := value.(string)
	if !is {
		whole, _ := json.Marshal(value) //nolint:errchkjson // It was JSON.
		text = string(whole)
	}
	if text == "" {
		return ""
	}
	if !strings.HasPrefix(path, "data") {
		return s.key.token(text)
	}
	if used, err := base64.StdEncoding.DecodeString(text); err == nil {
		text = string(used)
	}
	return base64.StdEncoding.EncodeToString([]byte(s.key.token(text)))
}

// maskPatch masks a JSON patch of a Secret.
func (s *secrets) maskPatch(value any) {
	items, _ := value.([]any)
	for _, item := range items {
		change, _ := item.(map[string]any)
		path, _ := change["path"].(string)
		path = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."), "~1", "/")
		if change["value"] != nil && object.IsSecretField(path) {
			change["value"] = s.tokenAt(path, change["value"])
		}
	}
}

// maskFieldChanges masks the changed fields of a Secret.
func (s *secrets) maskFieldChanges(from, to []hook.FieldChange) {
	for i, change := range from {
		if !object.IsSecretField(change.Path) {
			continue
		}
		for _, side := range []struct {
			was json.RawMessage
			is  *json.RawMessage
		}{{change.From, &to[i].From}, {change.To, &to[i].To}} {
			if value, err := decode(side.was); side.was != nil && err == nil {
				*side.is = quoted(s.tokenAt(change.Path, value))
			}
		}
	}
}
