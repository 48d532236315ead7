// A relay of records from one Kafka cluster to another with franz-go: what a team may write instead of a replicator.
//
// It reads what is committed (read_committed) as a consumer group and writes each record, with its partition, key,
// value, headers and timestamp, to the topic of the same name with a prefix.  At least once: an offset is marked for
// the group's next commit when its record has been acknowledged.  Topics of the target must exist.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Tuned for throughput.  Batches are at most as large as a topic takes by default (max.message.bytes), fetches as
// large as the client's own limit on an answer allows, and what is sent but not acknowledged is bounded by bytes.
const (
	batchBytes          = 1_000_012
	linger              = 50 * time.Millisecond
	bufferedRecords     = 1_000_000
	bufferedBytes       = 128 << 20
	fetchBytes          = 50 << 20
	fetchPartitionBytes = 8 << 20
	gcPercent           = 400 // in one short run a tenth less CPU than 100, for up to twice the memory
)

// The benchmark pauses the relay while it fills topics: that must be no reason to leave the group.
const pause = 10 * time.Minute

type flags struct{ source, target, sourceCA, targetCA, topics, prefix, group string }

func main() {
	var given flags
	flag.StringVar(&given.source, "source", "", "bootstrap servers to read from")
	flag.StringVar(&given.target, "target", "", "bootstrap servers to write to")
	flag.StringVar(&given.sourceCA, "source-ca", "", "PEM file to trust; the source is then read over TLS")
	flag.StringVar(&given.targetCA, "target-ca", "", "the same for the target")
	flag.StringVar(&given.topics, "topics", "", "regular expression of the topics to copy")
	flag.StringVar(&given.prefix, "prefix", "", "what the names of the copies begin with")
	flag.StringVar(&given.group, "group", "", "consumer group that holds the progress")
	flag.Parse()
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, given); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, given flags) error {
	fromSource, err := trusting(given.sourceCA)
	if err != nil {
		return err
	}
	toTarget, err := trusting(given.targetCA)
	if err != nil {
		return err
	}
	consumer, err := kgo.NewClient(
		fromSource,
		kgo.SeedBrokers(strings.Split(given.source, ",")...),
		kgo.ConsumerGroup(given.group),
		kgo.ConsumeTopics(given.topics),
		kgo.ConsumeRegex(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxBytes(fetchBytes),
		kgo.FetchMaxPartitionBytes(fetchPartitionBytes),
		kgo.AutoCommitMarks(),
		kgo.SessionTimeout(pause),
		kgo.RebalanceTimeout(pause),
		kgo.WithPools(&recordPool{}),
	)
	if err != nil {
		return fmt.Errorf("the consumer: %w", err)
	}
	defer consumer.Close() // commits what is marked, and leaves the group
	producer, err := kgo.NewClient(
		toTarget,
		kgo.SeedBrokers(strings.Split(given.target, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(batchBytes),
		kgo.ProducerLinger(linger),
		kgo.MaxBufferedRecords(bufferedRecords),
		kgo.MaxBufferedBytes(bufferedBytes),
	)
	if err != nil {
		return fmt.Errorf("the producer: %w", err)
	}
	defer producer.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return (&relay{consumer: consumer, producer: producer, prefix: given.prefix, stop: stop}).copy(ctx)
}

// trusting returns the option to reach a cluster whose certificate ca has signed; without ca, one without TLS.
func trusting(ca string) (kgo.Opt, error) {
	if ca == "" {
		return kgo.Dialer((&net.Dialer{Timeout: 10 * time.Second}).DialContext), nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return kgo.DialTLSConfig(&tls.Config{RootCAs: roots}), nil
}

type relay struct {
	consumer, producer *kgo.Client
	prefix             string
	stop               func() // ends the copy
	failure            atomic.Pointer[error]
}

// copy copies until ctx ends, and then waits for what it has sent; a record that cannot be written ends it, too.
func (r *relay) copy(ctx context.Context) error {
	for ctx.Err() == nil {
		fetches := r.consumer.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			if ctx.Err() == nil {
				return fmt.Errorf("%s-%d cannot be read: %w", failed.Topic, failed.Partition, failed.Err)
			}
		}
		fetches.EachPartition(func(part kgo.FetchTopicPartition) {
			if len(part.Records) > 0 {
				r.pass(r.prefix+part.Topic, part.Records)
			}
		})
	}
	if err := r.producer.Flush(context.Background()); err != nil {
		return fmt.Errorf("not all records were acknowledged: %w", err)
	}
	if failure := r.failure.Load(); failure != nil {
		return *failure
	}
	return r.consumer.CommitMarkedOffsets(context.Background())
}

// pass sends records of one partition on, as they are but for the topic.  The last of them is marked when it is
// acknowledged: the producer is idempotent, so all before it have been, unless one has failed.
func (r *relay) pass(topic string, records []*kgo.Record) {
	last := *records[len(records)-1] // the record itself gets the offset of its copy
	for _, record := range records {
		record.Topic = topic
	}
	end := len(records) - 1
	for _, record := range records[:end] {
		r.producer.Produce(context.Background(), record, r.acknowledged)
	}
	r.producer.Produce(context.Background(), records[end], func(record *kgo.Record, err error) {
		r.acknowledged(record, err)
		if r.failure.Load() == nil {
			r.consumer.MarkCommitRecords(&last)
		}
	})
}

func (r *relay) acknowledged(record *kgo.Record, err error) {
	if err != nil {
		failure := fmt.Errorf("%s-%d cannot be written: %w", record.Topic, record.Partition, err)
		r.failure.CompareAndSwap(nil, &failure)
		r.stop()
	}
	record.Recycle()
}
