#!/bin/sh
# Makes the stores beside it, with keytool (a JDK of version 17 or later) and openssl 3. Those of the tests were made once.
set -eu
cd "$(dirname "$0")"
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
export PASSWORD='a password'

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj '/O=Parshall/CN=Authority' \
    -keyout "$dir/authority.key" -out "$dir/authority.pem"
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj '/C=US/O=Parshall/OU=Tests/CN=broker' \
    -keyout "$dir/broker.key" -out "$dir/broker.csr"
echo 'subjectAltName = DNS:localhost' > "$dir/extensions"
openssl x509 -req -in "$dir/broker.csr" -extfile "$dir/extensions" -CA "$dir/authority.pem" -CAkey "$dir/authority.key" \
    -days 36500 -out "$dir/broker.pem"
# One without extensions, which is of X.509 version 1.
openssl x509 -req -in "$dir/broker.csr" -CA "$dir/authority.pem" -CAkey "$dir/authority.key" -days 36500 \
    -out "$dir/version1.pem"
cat "$dir/broker.key" "$dir/version1.pem" > version1.pem

openssl pkcs12 -export -in "$dir/broker.pem" -inkey "$dir/broker.key" -certfile "$dir/authority.pem" -name broker \
    -passout env:PASSWORD -out openssl.p12
openssl pkcs12 -export -nokeys -in "$dir/authority.pem" -passout env:PASSWORD -out openssl-trust.p12
openssl pkcs12 -export -legacy -in "$dir/broker.pem" -inkey "$dir/broker.key" -passout env:PASSWORD \
    -out openssl-legacy.p12
openssl pkcs12 -export -in "$dir/broker.pem" -inkey "$dir/broker.key" -certfile "$dir/authority.pem" \
    -keypbe NONE -certpbe NONE -nomac -passout env:PASSWORD -out plain.p12
openssl pkcs8 -topk8 -v2 aes-256-cbc -in "$dir/broker.key" -passout env:PASSWORD -out "$dir/encrypted.key"
cat "$dir/encrypted.key" "$dir/broker.pem" "$dir/authority.pem" > encrypted.pem

rm -f java.p12 java-trust.p12
keytool -importkeystore -srckeystore openssl.p12 -srcstoretype PKCS12 -srcstorepass:env PASSWORD \
    -destkeystore java.p12 -deststoretype PKCS12 -deststorepass:env PASSWORD
keytool -importcert -noprompt -alias authority -file "$dir/authority.pem" -keystore java-trust.p12 \
    -storetype PKCS12 -storepass:env PASSWORD
