package dashboard

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
)

// maxDecodedBytes limits the size of a decoded object.
const maxDecodedBytes = form.MaxBytes

// encodeObject returns an object as a hidden form field: compressed, and in letters that forms
// do not escape. It returns "" for nil.
func encodeObject(object map[string]any) string {
	if object == nil {
		return ""
	}
	var out strings.Builder
	letters := base64.NewEncoder(base64.RawURLEncoding, &out)
	small, err := flate.NewWriter(letters, flate.BestSpeed)
	if err != nil {
		return ""
	}
	encoder := json.NewEncoder(small)
	encoder.SetEscapeHTML(false)
	//nolint:errchkjson // Errors are checked here.
	if encoder.Encode(object) != nil || small.Close() != nil || letters.Close() != nil {
		return ""
	}
	return out.String()
}

// decodeObject decodes an object; nil for "".
func decodeObject(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // Nil is a valid result.
	}
	letters := base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(text))
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(letters), maxDecodedBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("decode object: %w", err)
	case len(data) > maxDecodedBytes:
		return nil, fmt.Errorf("decode object: more than %s", formatBytes(maxDecodedBytes))
	}
	return form.DecodeJSON(bytes.TrimSpace(data))
}
