// Package rates asks the rate service, line for line as the example in Setpoint
// does: what is compared lies beside it.
package rates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Service responds to /latest?symbols=USD with {"rates":{"USD":1.1901}}.
type Service struct{ Address string }

// maxResponse is larger than any response of the service.
const maxResponse = 1 << 20

// Check says what is wrong with the service's address.
func (s *Service) Check() error {
	base, err := url.Parse(s.Address)
	switch {
	case s.Address == "":
		return errors.New("where is the rate service? Say so with --rates or $RATES")
	case err != nil:
		return err
	case base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return fmt.Errorf("the address of the rate service must be a URL, not %q", s.Address)
	}
	return nil
}

// Rate is what a euro is worth in a currency, as the service writes it.
func (s *Service) Rate(ctx context.Context, currency string) (string, error) {
	body, err := s.get(ctx, currency)
	if err != nil {
		return "", fmt.Errorf("ask the rate service for %s: %w", currency, err)
	}
	var response struct{ Rates map[string]json.Number }
	if err := json.Unmarshal(body, &response); err != nil {
		return "", fmt.Errorf("invalid response of the rate service for %s: %w", currency, err)
	}
	rate, known := response.Rates[currency]
	if !known {
		return "", fmt.Errorf("the rate service does not know %s", currency)
	}
	if value, err := rate.Float64(); err != nil || value <= 0 {
		return "", fmt.Errorf("the rate service says that a euro is %s %s, which cannot be", rate, currency)
	}
	return rate.String(), nil
}

// get returns the body of a successful response.
func (s *Service) get(ctx context.Context, currency string) ([]byte, error) {
	address := strings.TrimSuffix(s.Address, "/") + "/latest?" + url.Values{"symbols": {currency}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxResponse))
}
