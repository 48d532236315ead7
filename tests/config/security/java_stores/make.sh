#!/usr/bin/env bash
# Makes the stores of this folder anew with a JDK's keytool (17 wrote those that are committed):
#
#   trust.jks, trust.p12    two authorities, "ca" and "other"
#   client.jks, client.p12  the same key with its chain, signed by "ca"
#   own-password.jks        that key under a password of its own
#   two-keys.jks            the client's key and "other"'s
#   trust.jceks             as trust.jks
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.jks ./*.p12 ./*.jceks ./*.tmp

tool() { keytool "$@" -storepass store-pa55 -noprompt 2> /dev/null; }
pair() { tool -genkeypair -keystore "$1.tmp" -storetype JKS -alias "$1" -keypass store-pa55 -dname "CN=$1" -keyalg EC -groupname secp256r1 -validity 36500 "${@:2}"; }
copy() { tool -importkeystore -srckeystore "$1" -srcstorepass store-pa55 -destkeystore "$2" -deststoretype "$3" "${@:4}"; }

for authority in ca other; do
    pair $authority -ext bc:c
    tool -exportcert -keystore $authority.tmp -alias $authority > $authority.cert.tmp
    for kind in JKS:jks PKCS12:p12 JCEKS:jceks; do
        tool -importcert -keystore trust.${kind#*:} -storetype ${kind%:*} -alias $authority -file $authority.cert.tmp
    done
done
pair client
tool -certreq -keystore client.tmp -alias client |
    tool -gencert -keystore ca.tmp -alias ca -validity 36500 > client.cert.tmp
tool -importcert -keystore client.tmp -alias ca -file ca.cert.tmp
tool -importcert -keystore client.tmp -alias client -file client.cert.tmp
tool -delete -keystore client.tmp -alias ca
cp client.tmp client.jks
cp client.tmp own-password.jks
cp client.tmp two-keys.jks
tool -keypasswd -keystore own-password.jks -alias client -keypass store-pa55 -new key-pa55
copy other.tmp two-keys.jks JKS
copy client.jks client.p12 PKCS12
rm -f ./*.tmp
