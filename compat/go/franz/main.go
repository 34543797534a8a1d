// franz-go: transactions, a group that reads, works and writes in transactions, groups that the broker balances, and
// connections with TLS and SASL.
//
// Arguments: BOOTSTRAP TAG SCENARIO. What it prints is the scenario's transcript.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 3

var (
	ctx       context.Context
	bootstrap = os.Args[1]
	tag       = os.Args[2]
)

func main() {
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	scenarios := map[string]func(){
		"transactions": transactions, "copies": copies, "members": members, "secured": secured, "refused": refused,
	}
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

// The broker's name for an error.
func kind(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	return fmt.Sprint(err)
}

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	check(err)
	return made
}

func topic(admin *kadm.Client, base string) string {
	_, err := admin.CreateTopic(ctx, partitions, 1, nil, name(base))
	check(err)
	return name(base)
}

func number(n int) []byte { return []byte(strconv.Itoa(n)) }

// Numbered records, over the partitions in turn.
func records(topic string, from, to int) []*kgo.Record {
	var made []*kgo.Record
	for n := from; n < to; n++ {
		made = append(made, &kgo.Record{Topic: topic, Partition: int32(n % partitions), Value: number(n)})
	}
	return made
}

// How the committed numbers of a topic differ from those that are to be there.
func differences(topic string, want int) string {
	reader := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	times := map[string]int{}
	total := 0
	for quiet := 0; total < want || quiet < 2; quiet++ {
		waiting, cancel := context.WithTimeout(ctx, time.Second)
		reader.PollFetches(waiting).EachRecord(func(record *kgo.Record) {
			times[string(record.Value)]++
			total++
			quiet = 0
		})
		cancel()
		if ctx.Err() != nil {
			break
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
	id := name("franz")
	producer := client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	admin := kadm.NewClient(producer)
	topic := topic(admin, "orders")
	write := func(from, to int, commit kgo.TransactionEndTry) {
		check(producer.BeginTransaction())
		check(producer.ProduceSync(ctx, records(topic, from, to)...).FirstErr())
		described, err := admin.DescribeTransactions(ctx, id)
		check(err)
		open := described[id]
		fmt.Println("in it:", open.State, len(open.Topics[topic]), "partitions")
		check(producer.EndTransaction(ctx, commit))
	}
	write(0, 30, kgo.TryCommit)
	write(30, 45, kgo.TryAbort)
	write(30, 60, kgo.TryCommit)
	fmt.Println(differences(topic, 60))
	listed, err := admin.ListTransactions(ctx, nil, nil)
	check(err)
	fmt.Println("listed:", listed[id].TxnID == id, listed[id].ProducerID >= 0)

	check(producer.BeginTransaction())
	check(producer.ProduceSync(ctx, records(topic, 100, 101)...).FirstErr())
	successor := client(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer successor.Close()
	check(successor.BeginTransaction())
	check(successor.ProduceSync(ctx, records(topic, 60, 61)...).FirstErr())
	check(successor.EndTransaction(ctx, kgo.TryCommit))
	fmt.Println("the former producer commits:", kind(producer.EndTransaction(ctx, kgo.TryCommit)))
	fmt.Println(differences(topic, 61))
}

// Two sessions of a group copy numbers; one of them leaves in the middle, and another one takes its place.
func copies() {
	const total = 600
	filler := client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer filler.Close()
	admin := kadm.NewClient(filler)
	source, target := topic(admin, "source"), topic(admin, "target")
	check(filler.ProduceSync(ctx, records(source, 0, total)...).FirstErr())
	session := func(id string) *kgo.GroupTransactSession {
		made, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(name(id)),
			kgo.ConsumerGroup(name("copiers")), kgo.ConsumeTopics(source), kgo.RequireStableFetchOffsets(),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		check(err)
		return made
	}
	// Copies until so many transactions are committed, or nothing comes any more. Returns how many records it copied.
	work := func(copier *kgo.GroupTransactSession, commits int) int {
		copied := 0
		for idle := 0; commits > 0 && idle < 10 && ctx.Err() == nil; {
			waiting, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			fetched := copier.PollRecords(waiting, 40)
			cancel()
			if fetched.NumRecords() == 0 {
				idle++
				continue
			}
			idle = 0
			check(copier.Begin())
			fetched.EachRecord(func(record *kgo.Record) {
				copier.Produce(ctx, &kgo.Record{Topic: target, Value: record.Value}, nil)
			})
			committed, err := copier.End(ctx, kgo.TryCommit)
			check(err)
			if committed {
				copied += fetched.NumRecords()
				commits--
			}
		}
		return copied
	}
	first, second := session("first"), session("second")
	copied := work(first, 3)
	copied += work(second, 3)
	first.Close()
	third := session("third")
	results := make(chan int)
	for _, copier := range []*kgo.GroupTransactSession{second, third} {
		go func() { results <- work(copier, total) }()
	}
	copied += <-results + <-results
	second.Close()
	third.Close()
	fmt.Println("copied:", copied)
	fmt.Println(differences(target, total))
	committed, err := admin.FetchOffsets(ctx, name("copiers"))
	check(err)
	sum := int64(0)
	committed.Each(func(offset kadm.OffsetResponse) { sum += offset.At })
	fmt.Println("committed offsets:", sum >= total)
}

// Members of a group whose broker assigns the partitions (KIP-848).
func members() {
	admin := kadm.NewClient(client())
	defer admin.Close()
	topic := topic(admin, "shared")
	member := func() *kgo.Client {
		return client(kgo.ConsumerGroup(name("balanced")), kgo.ConsumeTopics(topic), kgo.ServerSideBalancer(),
			kgo.Balancers(kgo.RangeBalancer()))
	}
	// Waits until the group is stable and its members have so many partitions.
	await := func(want ...int) {
		for ctx.Err() == nil {
			described, err := admin.DescribeConsumerGroups(ctx, name("balanced"))
			check(err)
			group := described[name("balanced")]
			var have []int
			for _, member := range group.Members {
				have = append(have, len(member.Assignment[topic]))
			}
			slices.Sort(have)
			if group.State == "Stable" && slices.Equal(have, want) {
				fmt.Println("stable:", have, group.AssignorName)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		fmt.Println("waited in vain for", want)
	}
	poll := func(member *kgo.Client) {
		for {
			fetched := member.PollFetches(ctx)
			if fetched.IsClientClosed() || ctx.Err() != nil {
				return
			}
		}
	}
	first := member()
	go poll(first)
	await(3)
	second := member()
	go poll(second)
	await(1, 2)
	first.Close()
	await(3)
	second.Close()
}
