package main

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// recordPool gives the client the memory of records back that have been passed on (kgo.WithPools).
type recordPool struct{ decoded, records sync.Pool }

func (p *recordPool) GetKRecords(n int) []kmsg.Record { return get[kmsg.Record](&p.decoded, n) }
func (p *recordPool) PutKRecords(used []kmsg.Record)  { p.decoded.Put(&used) }
func (p *recordPool) GetRecords(n int) []kgo.Record   { return get[kgo.Record](&p.records, n) }
func (p *recordPool) PutRecords(used []kgo.Record)    { p.records.Put(&used) }

func get[T any](pool *sync.Pool, n int) []T {
	if used, ok := pool.Get().(*[]T); ok && cap(*used) >= n {
		return (*used)[:0:cap(*used)][:n]
	}
	return make([]T, n)
}
