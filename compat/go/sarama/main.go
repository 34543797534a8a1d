// sarama: transactions, and a consumer group that reads, works and writes in transactions.
//
// Arguments: BOOTSTRAP TAG SCENARIO. What it prints is the scenario's transcript.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	partitions = 3
	patience   = 60 * time.Second
)

var (
	bootstrap = []string{os.Args[1]}
	tag       = os.Args[2]
	end       = time.Now().Add(patience)
)

func main() {
	scenarios := map[string]func(){"transactions": transactions, "copies": copies}
	scenarios[os.Args[3]]()
}

// A name that no other run uses.
func name(base string) string { return base + "-" + tag }

func check(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// The number of the protocol for an error.
func kind(err error) string {
	var known sarama.KError
	if errors.As(err, &known) {
		return fmt.Sprintf("error %d", int16(known))
	}
	return fmt.Sprint(err)
}

func config() *sarama.Config {
	made := sarama.NewConfig()
	made.Version = sarama.MaxVersion
	made.Producer.Return.Successes = true
	made.Producer.Partitioner = sarama.NewManualPartitioner
	made.Consumer.IsolationLevel = sarama.ReadCommitted
	made.Consumer.Offsets.Initial = sarama.OffsetOldest
	made.Consumer.Offsets.AutoCommit.Enable = false
	return made
}

func transactional(id string) sarama.SyncProducer {
	settings := config()
	settings.Producer.Idempotent = true
	settings.Producer.Transaction.ID = name(id)
	settings.Producer.RequiredAcks = sarama.WaitForAll
	settings.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(bootstrap, settings)
	check(err)
	return producer
}

func topic(base string) string {
	admin, err := sarama.NewClusterAdmin(bootstrap, config())
	check(err)
	defer admin.Close()
	check(admin.CreateTopic(name(base), &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
	return name(base)
}

// Sends numbers, over the partitions in turn.
func send(producer sarama.SyncProducer, topic string, from, to int) error {
	var messages []*sarama.ProducerMessage
	for n := from; n < to; n++ {
		value := sarama.StringEncoder(strconv.Itoa(n))
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: int32(n % partitions), Value: value})
	}
	return producer.SendMessages(messages)
}

// How the committed numbers of a topic differ from those that are to be there.
func differences(topic string, want int) string {
	consumer, err := sarama.NewConsumer(bootstrap, config())
	check(err)
	defer consumer.Close()
	all := make(chan string)
	for partition := range int32(partitions) {
		reader, err := consumer.ConsumePartition(topic, partition, sarama.OffsetOldest)
		check(err)
		defer reader.AsyncClose()
		go func() {
			for message := range reader.Messages() {
				all <- string(message.Value)
			}
		}()
	}
	times := map[string]int{}
	total := 0
	for quiet := 0; (total < want || quiet < 2) && time.Now().Before(end); {
		select {
		case value := <-all:
			times[value]++
			total++
			quiet = 0
		case <-time.After(time.Second):
			quiet++
		}
	}
	repeated, missing := 0, 0
	for n := range want {
		switch times[strconv.Itoa(n)] {
		case 0:
			missing++
		case 1:
		default:
			repeated++
		}
	}
	return fmt.Sprintf("%d committed, %d missing, %d repeated", total, missing, repeated)
}

func transactions() {
	topic := topic("orders")
	producer := transactional("sarama")
	write := func(from, to int, finish func() error) {
		check(producer.BeginTxn())
		check(send(producer, topic, from, to))
		check(finish())
	}
	write(0, 30, producer.CommitTxn)
	write(30, 45, producer.AbortTxn)
	write(30, 60, producer.CommitTxn)
	fmt.Println(differences(topic, 60))

	check(producer.BeginTxn())
	check(send(producer, topic, 100, 101))
	successor := transactional("sarama")
	defer successor.Close()
	check(successor.BeginTxn())
	check(send(successor, topic, 60, 61))
	check(successor.CommitTxn())
	fmt.Println("the former producer commits:", kind(producer.CommitTxn()))
	fmt.Println("fatal:", producer.TxnStatus()&sarama.ProducerTxnFlagFatalError != 0)
	fmt.Println(differences(topic, 61))
}

// Copies what its group gives it, some records in each transaction, until there are enough.
type copier struct {
	// All partitions share the producer, which has one transaction at a time.
	sync.Mutex
	producer      sarama.SyncProducer
	target        string
	copied, limit int
	stop          func()
}

func (c *copier) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (c *copier) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *copier) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			batch := []*sarama.ConsumerMessage{message}
			for len(batch) < 20 && len(claim.Messages()) > 0 {
				batch = append(batch, <-claim.Messages())
			}
			check(c.copy(batch))
		case <-session.Context().Done():
			return nil
		}
	}
}

func (c *copier) copy(batch []*sarama.ConsumerMessage) error {
	c.Lock()
	defer c.Unlock()
	if c.copied >= c.limit {
		return nil
	}
	if err := c.producer.BeginTxn(); err != nil {
		return err
	}
	var copies []*sarama.ProducerMessage
	for _, message := range batch {
		copies = append(copies, &sarama.ProducerMessage{Topic: c.target, Partition: message.Partition, Value: sarama.ByteEncoder(message.Value)})
	}
	if err := c.producer.SendMessages(copies); err != nil {
		return err
	}
	last := batch[len(batch)-1]
	offset := &sarama.PartitionOffsetMetadata{Partition: last.Partition, Offset: last.Offset + 1}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{last.Topic: {offset}}
	if err := c.producer.AddOffsetsToTxn(offsets, name("copiers")); err != nil {
		return err
	}
	if err := c.producer.CommitTxn(); err != nil {
		return err
	}
	if c.copied += len(batch); c.copied >= c.limit {
		c.stop()
	}
	return nil
}

// One after the other copies a part of the numbers and leaves; the last one finds the rest.
func copies() {
	const total = 600
	source, target := topic("source"), topic("target")
	filler, err := sarama.NewSyncProducer(bootstrap, config())
	check(err)
	check(send(filler, source, 0, total))
	check(filler.Close())
	copied := 0
	for turn, limit := range []int{200, 400, total} {
		group, err := sarama.NewConsumerGroup(bootstrap, name("copiers"), config())
		check(err)
		ctx, cancel := context.WithDeadline(context.Background(), end)
		worker := &copier{producer: transactional("copier-" + strconv.Itoa(turn)), target: target, copied: copied, limit: limit, stop: cancel}
		check(group.Consume(ctx, []string{source}, worker))
		cancel()
		copied = worker.copied
		check(group.Close())
		check(worker.producer.Close())
	}
	fmt.Println("copied all:", copied >= total)
	fmt.Println(differences(target, total))
	admin, err := sarama.NewClusterAdmin(bootstrap, config())
	check(err)
	committed, err := admin.ListConsumerGroupOffsets(name("copiers"), map[string][]int32{source: {0, 1, 2}})
	check(err)
	sum := int64(0)
	for _, block := range committed.Blocks[source] {
		sum += block.Offset
	}
	fmt.Println("committed offsets:", sum)
}
