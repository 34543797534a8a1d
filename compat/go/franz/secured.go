package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// How to connect, as harness/secured.py tells it.
type way struct {
	Title, Bootstrap, Protocol, Authority, Certificate, Key, Mechanism, User, Password string
}

func ways() []way {
	text, err := os.ReadFile(os.Args[4])
	check(err)
	var read []way
	check(json.Unmarshal(text, &read))
	return read
}

func (w way) options() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(w.Bootstrap)}
	if strings.HasSuffix(w.Protocol, "SSL") {
		authority, err := os.ReadFile(w.Authority)
		check(err)
		config := &tls.Config{RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(authority)
		if w.Certificate != "" {
			pair, err := tls.LoadX509KeyPair(w.Certificate, w.Key)
			check(err)
			config.Certificates = []tls.Certificate{pair}
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if strings.HasPrefix(w.Protocol, "SASL") {
		mechanisms := map[string]sasl.Mechanism{
			"PLAIN":         plain.Auth{User: w.User, Pass: w.Password}.AsMechanism(),
			"SCRAM-SHA-256": scram.Auth{User: w.User, Pass: w.Password}.AsSha256Mechanism(),
			"SCRAM-SHA-512": scram.Auth{User: w.User, Pass: w.Password}.AsSha512Mechanism(),
		}
		options = append(options, kgo.SASL(mechanisms[w.Mechanism]))
	}
	return options
}

// Creates a topic, writes, reads and deletes it by each of the ways.
func secured() {
	for number, way := range ways() {
		topic := name(fmt.Sprintf("secured-%d", number))
		made, err := kgo.NewClient(append(way.options(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		check(err)
		admin := kadm.NewClient(made)
		_, err = admin.CreateTopic(ctx, 1, 1, nil, topic)
		check(err)
		var sent []*kgo.Record
		for n := range 3 {
			sent = append(sent, &kgo.Record{Topic: topic, Value: []byte(fmt.Sprint(n))})
		}
		check(made.ProduceSync(ctx, sent...).FirstErr())
		var values []string
		for len(values) < len(sent) && ctx.Err() == nil {
			made.PollFetches(ctx).EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
		}
		_, err = admin.DeleteTopics(ctx, topic)
		check(err)
		fmt.Printf("%s: read %v\n", way.Title, values)
		made.Close()
	}
}

// What the client says of each way, which is to be refused.
func refused() {
	for _, way := range ways() {
		made, err := kgo.NewClient(append(way.options(), kgo.RequestRetries(0))...)
		check(err)
		waiting, cancel := context.WithTimeout(ctx, 6*time.Second)
		fmt.Printf("%s: %s\n", way.Title, refusal(made.Ping(waiting)))
		cancel()
		made.Close()
	}
}

// The kind of a failure to connect.
func refusal(err error) string {
	var unknown x509.UnknownAuthorityError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var first *kgo.ErrFirstReadEOF
	var network net.Error
	switch {
	case err == nil:
		return "nothing"
	case errors.As(err, &unknown):
		return "unknown authority"
	case errors.As(err, &record):
		return "not TLS"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return "TLS alert"
	case errors.As(err, &first):
		return "closed at once"
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	}
	return kind(err)
}
