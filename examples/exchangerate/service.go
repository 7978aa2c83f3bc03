package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// rateService is a rate service: /latest?symbols=USD returns {"rates":{"USD":1.1901}}.
type rateService struct {
	address string
	client  *http.Client
}

const maxResponseBytes = 1 << 20

// check validates the address of the service.
func (s *rateService) check(context.Context) error {
	base, err := url.Parse(s.address)
	switch {
	case s.address == "":
		return errors.New("where is the rate service? Say so with --rates or $RATES, such as https://api.frankfurter.dev/v1")
	case err != nil:
		return err
	case base.Host == "" || base.Scheme != "http" && base.Scheme != "https":
		return fmt.Errorf("the address of the rate service must be a URL such as https://api.frankfurter.dev/v1, not %q", s.address)
	}
	return nil
}

// rate returns the value of a euro in a currency, as the service writes it.
func (s *rateService) rate(ctx context.Context, currency string) (string, error) {
	body, err := s.get(ctx, currency)
	if err != nil {
		return "", fmt.Errorf("get the rate of %s: %w", currency, err)
	}
	var response struct{ Rates map[string]json.Number }
	if err := json.Unmarshal(body, &response); err != nil {
		return "", fmt.Errorf("invalid response of the rate service for %s: %w", currency, err)
	}
	rate, known := response.Rates[currency]
	if !known {
		return "", fmt.Errorf("the rate service has no rate of %s", currency)
	}
	if value, err := rate.Float64(); err != nil || value <= 0 {
		return "", fmt.Errorf("the rate service returned an invalid rate: %s %s", rate, currency)
	}
	return rate.String(), nil
}

// get returns the body of a successful response.
func (s *rateService) get(ctx context.Context, currency string) ([]byte, error) {
	address := strings.TrimSuffix(s.address, "/") + "/latest?" + url.Values{"symbols": {currency}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := cmp.Or(s.client, http.DefaultClient).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxResponseBytes))
}
