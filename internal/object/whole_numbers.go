package object

import (
	"bytes"
	"strconv"
	"strings"
)

// WholeNumbers returns JSON in which whole numbers within the range of int64 are integers: 2.0 becomes 2, and 1e3
// becomes 1000. Some languages have one type of number only, and the API server accepts no such text for an integer. It
// returns data itself if nothing changes.
func WholeNumbers(data []byte) []byte {
	var out []byte
	copied := 0
	for at := 0; at < len(data); at++ {
		switch c := data[at]; {
		case c == '"':
			at = closingQuote(data, at+1)
		case c == '-' || c >= '0' && c <= '9':
			end := at + len(data[at:]) - len(bytes.TrimLeft(data[at:], "+-.0123456789eE"))
			if integer, is := wholeNumber(data[at:end]); is {
				out = append(append(out, data[copied:at]...), integer...)
				copied = end
			}
			at = end - 1
		}
	}
	if copied == 0 {
		return data
	}
	return append(out, data[copied:]...)
}

// maxExponent is larger than any exponent of an int64 that is worth writing out.
const maxExponent = 100

// wholeNumber returns a number with a fraction or an exponent as an integer, if it is one.
func wholeNumber(number []byte) (string, bool) {
	if !bytes.ContainsAny(number, ".eE") {
		return "", false
	}
	mantissa, power, _ := strings.Cut(strings.ToLower(string(number)), "e")
	digits, fraction, _ := strings.Cut(mantissa, ".")
	exponent := 0
	if power != "" {
		var err error
		if exponent, err = strconv.Atoi(power); err != nil || max(exponent, -exponent) > maxExponent {
			return "", false
		}
	}
	fraction = strings.TrimRight(fraction, "0")
	digits, exponent = digits+fraction, exponent-len(fraction)
	if exponent < 0 {
		kept := strings.TrimRight(digits, "0")
		if zeros := len(digits) - len(kept); kept != "" && kept != "-" && zeros < -exponent {
			return "", false
		}
		digits = digits[:max(len(digits)+exponent, 0)]
	} else {
		digits += strings.Repeat("0", exponent)
	}
	if digits == "" || digits == "-" {
		digits = "0"
	}
	whole, err := strconv.ParseInt(digits, 10, 64)
	return strconv.FormatInt(whole, 10), err == nil
}
