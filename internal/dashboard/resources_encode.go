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

// maxDecodedBytes is how large an object may be that a page has sent back, as JSON.
const maxDecodedBytes = form.MaxBytes

// encodeObject is an object as it travels with a page: small, and of letters that a form sends
// as they are. JSON, each quote of which a form sends as three letters or six, would be
// several times as large as the object. It is "" for none.
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
	//nolint:errchkjson // It is checked here.
	if encoder.Encode(object) != nil || small.Close() != nil || letters.Close() != nil {
		return ""
	}
	return out.String()
}

// decodeObject is the object that was packed; nil for "".
func decodeObject(text string) (map[string]any, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // No object is what there is.
	}
	letters := base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(text))
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(letters), maxDecodedBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack an object: %w", err)
	case len(data) > maxDecodedBytes:
		return nil, fmt.Errorf("unpack an object: it has more than %s", formatBytes(maxDecodedBytes))
	}
	return form.DecodeJSON(bytes.TrimSpace(data))
}

// compactJSON is an object as JSON; "" for none.
func compactJSON(object map[string]any) string {
	if object == nil {
		return ""
	}
	data, err := json.Marshal(object)
	if err != nil {
		return ""
	}
	return string(data)
}
