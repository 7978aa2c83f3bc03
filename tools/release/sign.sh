#!/bin/sh
# Pushes the image of a release, and signs image, checksums and provenance. A build service runs it after
# `make release`; docs/install.md#verify says how users verify.
#
#     tools/release/sign.sh DIST REGISTRY/IMAGE
#
# Without $COSIGN_KEY, cosign signs with the identity of the build (keyless).
set -eu

fail() {
	echo "sign.sh: $*" >&2
	exit 1
}

[ $# -eq 2 ] || fail "usage: sign.sh DIST REGISTRY/IMAGE"
dist=$1 image=$2
for tool in cosign crane sha256sum; do
	command -v "$tool" >/dev/null || fail "$tool is not installed"
done
cd "$dist"
sha256sum --check --strict --quiet SHA256SUMS || fail "files in $dist differ from SHA256SUMS: make the release again"
! grep -q '"uncommittedChanges": true' provenance.intoto.json || fail "the release has changes that are not committed"
version=$(ls setpoint-chart-*.tgz | sed 's/^setpoint-chart-\(.*\)\.tgz$/\1/')

# What was pushed must be what was built: the index of the image is one of the files with a checksum.
pushed=$(crane push image "$image:$version")
digest=${pushed##*@sha256:}
grep -q "^$digest  image/blobs/sha256/$digest\$" SHA256SUMS || fail "the registry has another image: $pushed"

cosign sign --yes ${COSIGN_KEY:+--key "$COSIGN_KEY"} --recursive "$image@sha256:$digest"
cosign attest --yes ${COSIGN_KEY:+--key "$COSIGN_KEY"} --type slsaprovenance1 \
	--predicate provenance.predicate.json "$image@sha256:$digest"
for file in SHA256SUMS provenance.intoto.json; do
	cosign sign-blob --yes ${COSIGN_KEY:+--key "$COSIGN_KEY"} --bundle "$file.sigstore.json" "$file"
done
echo "signed $image:$version@sha256:$digest"
