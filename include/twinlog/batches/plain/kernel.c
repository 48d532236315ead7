/* Merge small uncompressed record batches (magic 2), in one pass over a fetched block; called by call.py.
 *
 * Merged batches may be written over the block itself: a record is never moved to where it would end later than it did.
 * What is read was written by anybody, so nothing of it is believed before it was checked:
 *
 *   - Every byte is read through a cursor that holds its end; every length is compared with what is left before it is
 *     used; every write is preceded by a check of the room that is left.
 *   - A batch is taken whole or not at all: it is gone through without writing first.  At the first thing that is not
 *     plain (damage, an overflow, a batch that needs another way, no room) the kernel stops with that batch untouched,
 *     and the caller goes on there in Python, which has the rules and the words.  So there are no errors here.
 *   - Offsets are below 2^62 and lengths below 2^31 where they are added, so that no sum overflows.
 *
 * The result is, byte for byte, what columns.py and build.py make of the same batches.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#ifndef SOURCE_DIGEST
#define SOURCE_DIGEST "" /* the build gives it (hatch_build.py) */
#endif

/* Return the fingerprint of this file as it was compiled. */
EXPORT const char *twinlog_source(void) { return SOURCE_DIGEST; }

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

/* ---- CRC-32C (Castagnoli, RFC 3720) ------------------------------------------------------------------------------ */

enum { LANE = 256, LONG_LANE = 4096 };

static u32 table[8][256];      /* by byte of an eight-byte word, for processors without an instruction */
static u32 squares[64][32];    /* the map that appends 2^k zero bytes, as the images of the 32 single bits */
static u32 lane[4][256];       /* the map that appends LANE zero bytes, by byte of the register */
static u32 long_lane[4][256];  /* the same for LONG_LANE */

static u32 applied(const u32 map[32], u32 reg) {
    u32 out = 0;
    for (int bit = 0; reg; bit++, reg >>= 1)
        if (reg & 1) out ^= map[bit];
    return out;
}

/* Return the register after `length` further zero bytes. */
static u32 append_zeros(u32 reg, u64 length) {
    for (int k = 0; length; k++, length >>= 1)
        if (length & 1) reg = applied(squares[k], reg);
    return reg;
}

static inline u64 little(const u8 *at) {
    u64 word;
    memcpy(&word, at, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static u32 crc_by_table(u32 reg, const u8 *at, size_t size) {
    for (; size >= 8; at += 8, size -= 8) {
        u64 word = little(at) ^ reg;
        reg = 0;
        for (int byte = 0; byte < 8; byte++) reg ^= table[7 - byte][word >> (8 * byte) & 0xFF];
    }
    for (; size; at++, size--) reg = table[0][(reg ^ *at) & 0xFF] ^ reg >> 8;
    return reg;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#define HARDWARE __attribute__((target("sse4.2,crc32")))
#define STEP8(reg, word) ((u32)_mm_crc32_u64(reg, word))
#define STEP1(reg, byte) _mm_crc32_u8(reg, byte)
static int has_instruction(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <arm_acle.h>
#define HARDWARE __attribute__((target("crc")))
#define STEP8(reg, word) __crc32cd(reg, word)
#define STEP1(reg, byte) __crc32cb(reg, byte)
static int has_instruction(void) { return 1; }
#elif defined(__aarch64__) && defined(__linux__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_acle.h>
#include <sys/auxv.h>
#define HARDWARE __attribute__((target("crc")))
#define STEP8(reg, word) __crc32cd(reg, word)
#define STEP1(reg, byte) __crc32cb(reg, byte)
static int has_instruction(void) { return (getauxval(16 /* AT_HWCAP */) >> 7 & 1) != 0; /* HWCAP_CRC32 */ }
#endif

#ifdef HARDWARE
static inline u32 mapped(u32 map[4][256], u32 reg) {
    return map[0][reg & 0xFF] ^ map[1][reg >> 8 & 0xFF] ^ map[2][reg >> 16 & 0xFF] ^ map[3][reg >> 24];
}

/* The instruction can begin each cycle and takes three: three lanes of bytes go side by side, and are joined. */
HARDWARE static u32 three_lanes(u32 reg, const u8 *at, size_t length, u32 map[4][256]) {
    u32 second = 0, third = 0;
    for (const u8 *end = at + length; at < end; at += 8) {
        reg = STEP8(reg, little(at));
        second = STEP8(second, little(at + length));
        third = STEP8(third, little(at + 2 * length));
    }
    return mapped(map, mapped(map, reg) ^ second) ^ third;
}

HARDWARE static u32 crc_by_instruction(u32 reg, const u8 *at, size_t size) {
    for (; size >= 3 * LONG_LANE; at += 3 * LONG_LANE, size -= 3 * LONG_LANE)
        reg = three_lanes(reg, at, LONG_LANE, long_lane);
    for (; size >= 3 * LANE; at += 3 * LANE, size -= 3 * LANE) reg = three_lanes(reg, at, LANE, lane);
    for (; size >= 8; at += 8, size -= 8) reg = STEP8(reg, little(at));
    for (; size; at++, size--) reg = STEP1(reg, *at);
    return reg;
}
#endif

static u32 (*crc)(u32, const u8 *, size_t) = crc_by_table;

static void fill_lane(u32 map[4][256], u64 length) {
    for (int byte = 0; byte < 4; byte++)
        for (u32 value = 0; value < 256; value++) map[byte][value] = append_zeros(value << (8 * byte), length);
}

/* Fill the tables; `plain` keeps to them where there is an instruction.  Call once before anything else. */
EXPORT void twinlog_begin(int plain) {
    for (u32 value = 0; value < 256; value++) {
        u32 reg = value;
        for (int bit = 0; bit < 8; bit++) reg = reg >> 1 ^ (reg & 1 ? 0x82F63B78u : 0);
        table[0][value] = reg;
    }
    for (int byte = 1; byte < 8; byte++)
        for (u32 value = 0; value < 256; value++)
            table[byte][value] = table[byte - 1][value] >> 8 ^ table[0][table[byte - 1][value] & 0xFF];
    for (int bit = 0; bit < 32; bit++) {
        u32 reg = 1u << bit;
        squares[0][bit] = table[0][reg & 0xFF] ^ reg >> 8;
    }
    for (int k = 1; k < 64; k++)
        for (int bit = 0; bit < 32; bit++) squares[k][bit] = applied(squares[k - 1], squares[k - 1][bit]);
    fill_lane(lane, LANE);
    fill_lane(long_lane, LONG_LANE);
    crc = crc_by_table;
#ifdef HARDWARE
    if (!plain && has_instruction()) crc = crc_by_instruction;
#endif
}

/* Return the CRC-32C of `size` bytes. */
EXPORT u32 twinlog_crc(const u8 *at, i64 size) { return ~crc(~0u, at, (size_t)size); }

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static inline u64 big(const u8 *at, int bytes) {
    u64 value = 0;
    for (int index = 0; index < bytes; index++) value = value << 8 | at[index];
    return value;
}

static inline void put_big(u8 *at, int bytes, u64 value) {
    for (int index = bytes - 1; index >= 0; index--, value >>= 8) at[index] = (u8)value;
}

typedef struct {
    const u8 *at, *end;
} Cursor;

/* Read a zigzag varint of at most `most` bytes; return 0 if it is longer, cut off, or more than 64 bits. */
static inline int get_varint(Cursor *from, int most, i64 *value) {
    u64 bits = 0;
    for (int index = 0; index < most && from->at < from->end; index++) {
        u8 byte = *from->at++;
        if (index == 9 && byte > 1) return 0;
        bits |= (u64)(byte & 0x7F) << (7 * index);
        if (byte < 0x80) {
            *value = (i64)(bits >> 1) ^ -(i64)(bits & 1);
            return 1;
        }
    }
    return 0;
}

static inline u64 zigzag(i64 value) { return (u64)value << 1 ^ (u64)(value >> 63); }

static inline int varint_bytes(u64 bits) {
    int bytes = 1;
    while (bits >>= 7) bytes++;
    return bytes;
}

static inline u8 *put_varint(u8 *at, u64 bits) {
    for (; bits >= 0x80; bits >>= 7) *at++ = (u8)(bits | 0x80);
    *at++ = (u8)bits;
    return at;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

enum { HEADER = 61, LOG_OVERHEAD = 12, CHECKED_FROM = 21, LARGEST_PREFIX = 21 };
enum { LOG_APPEND_TIME = 0x08, TRANSACTIONAL = 0x10, CONTROL = 0x20, DELETE_HORIZON = 0x40 };

static const i64 FURTHEST = (i64)1 << 62;

typedef struct {
    i64 base, epoch, last_delta, base_time, max_time, count, size;
    u32 crc, attributes;
} Header;

/* Read the header of a whole, possible batch in front of `left` bytes; return 0 if there is none. */
static int get_header(const u8 *at, i64 left, Header *header) {
    if (left < HEADER) return 0;
    i64 length = (int32_t)big(at + 8, 4);
    header->size = length + LOG_OVERHEAD;
    if (at[16] != 2 || header->size < HEADER || header->size > left) return 0;
    header->base = (i64)big(at, 8);
    header->epoch = (int32_t)big(at + 12, 4);
    header->crc = (u32)big(at + 17, 4);
    header->attributes = (u32)big(at + 21, 2);
    header->last_delta = (int32_t)big(at + 23, 4);
    header->base_time = (i64)big(at + 27, 8);
    header->max_time = (i64)big(at + 35, 8);
    header->count = (int32_t)big(at + 57, 4);
    return header->base >= 0 && header->base < FURTHEST && header->count >= 0 &&
           header->count <= header->last_delta + 1;
}

/* A batch, and the upstream offset that the copy had reached before it. */
typedef struct {
    Header header;
    const u8 *at;
    i64 position;
} Batch;

typedef struct {
    i64 offset, time;
    const u8 *rest;
    i64 size;
} Record;

/* Read the next record of a batch; return 0 if it is not plain. */
static inline int get_record(Cursor *from, const Header *header, i64 least, Record *record) {
    i64 length, time, number;
    if (!get_varint(from, 5, &length) || length < 1 || length > from->end - from->at) return 0;
    Cursor body = {from->at, from->at + length};
    from->at = body.end;
    body.at++; /* its attributes, which mean nothing and are written as 0 */
    if (!get_varint(&body, 10, &time) || !get_varint(&body, 5, &number)) return 0;
    if (number < 0 || number > header->last_delta || header->base + number < least) return 0;
    record->offset = header->base + number;
    if (header->attributes & LOG_APPEND_TIME) record->time = header->max_time;
    else if (__builtin_add_overflow(header->base_time, time, &record->time)) return 0;
    record->rest = body.at;
    record->size = body.end - body.at;
    return 1;
}

/* What the caller wants, and what came of it: call.py has the same fields in the same order. */
typedef struct {
    const u8 *block; /* the fetched block */
    i64 block_size;
    i64 position;    /* the upstream offset that the copy has reached; also a result */
    i64 next_offset; /* the least upstream offset at which the next batch can begin; also a result */
    i64 end;         /* the end of the range */
    i64 stop;        /* no batch is taken that reaches beyond: it may belong to an aborted transaction */
    i64 limit;       /* the most bytes of records in a merged batch */
    i64 most_bytes, max_message_bytes; /* the largest batch of several records, and of one */
    double batch_cost, record_cost, byte_cost; /* what a batch costs, and what it costs to merge it (merge.py) */
    u8 *out;         /* room for merged batches */
    i64 out_size;
    i64 *batches; /* room for (bytes, number of stretches) of each merged batch */
    i64 batches_room;
    i64 *stretches; /* room for (first upstream offset, length) */
    i64 stretches_room;
    /* results */
    i64 read;         /* bytes of the block that were dealt with */
    i64 merged;       /* merged batches */
    i64 written;      /* bytes of them */
    i64 source;       /* batches of the block whose records were looked at */
    i64 single;       /* the place of the only such batch, if it can be sent as it is, and is untouched; else -1 */
    i64 epoch;        /* leader epoch of the last batch dealt with */
    i64 no_room;      /* whether more could have been taken, had there been room */
} Call;

/* The merged batches so far; the last one is open from `begin` on if `count` > 0.  `checked` is how far `reg` goes. */
typedef struct {
    i64 used, begin, checked, count, base_time, max_time, bytes;
    i64 merged, stretches, first_stretch, next;
    u32 reg;
} Out;

static void check_up(const Call *call, Out *out) {
    out->reg = crc(out->reg, call->out + out->checked, (size_t)(out->used - out->checked));
    out->checked = out->used;
}

/* Write the header of the open batch in front of its records, as header.py's `write_header` does. */
static void write_header(const Call *call, Out *out) {
    u8 *head = call->out + out->begin;
    i64 size = out->used - out->begin;
    check_up(call, out);
    put_big(head, 8, 0);
    put_big(head + 8, 4, (u64)(size - LOG_OVERHEAD));
    put_big(head + 12, 4, ~(u64)0);
    head[16] = 2;
    put_big(head + 21, 2, 0);
    put_big(head + 23, 4, (u64)(out->count - 1));
    put_big(head + 27, 8, (u64)out->base_time);
    put_big(head + 35, 8, (u64)out->max_time);
    put_big(head + 43, 8, ~(u64)0);
    put_big(head + 51, 2, ~(u64)0);
    put_big(head + 53, 4, ~(u64)0);
    put_big(head + 57, 4, (u64)out->count);
    u32 reg = crc(~0u, head + CHECKED_FROM, HEADER - CHECKED_FROM);
    put_big(head + 17, 4, ~(append_zeros(reg, (u64)(size - HEADER)) ^ out->reg));
    call->batches[2 * out->merged] = size;
    call->batches[2 * out->merged + 1] = out->stretches - out->first_stretch;
}

static void close_batch(const Call *call, Out *out, int trial) {
    if (!out->count) return;
    if (!trial) write_header(call, out);
    out->merged++;
    out->count = 0;
}

/* Open a merged batch whose first record is `record`; return 0 if there is no room. */
static int open_batch(const Call *call, Out *out, const Record *record) {
    if (out->merged >= call->batches_room) return 0;
    out->begin = out->used;
    out->checked = out->used += HEADER;
    out->base_time = out->max_time = record->time;
    out->bytes = out->reg = 0;
    out->first_stretch = out->stretches;
    out->next = -1;
    return 1;
}

/* Note that a record follows in the open batch; return 0 if there is no room. */
static int note_offset(const Call *call, Out *out, i64 offset, int trial) {
    if (offset != out->next) {
        if (out->stretches >= call->stretches_room) return 0;
        if (!trial) {
            call->stretches[2 * out->stretches] = offset;
            call->stretches[2 * out->stretches + 1] = 0;
        }
        out->stretches++;
    }
    if (!trial) call->stretches[2 * out->stretches - 1]++;
    out->next = offset + 1;
    return 1;
}

enum Outcome { TAKEN, NOT_PLAIN, NO_ROOM };

/* Add a record.  A trial changes `out` and nothing else. */
static enum Outcome put_record(const Call *call, Out *out, const Record *record, int trial) {
    i64 time;
    if (record->size > call->max_message_bytes - HEADER - LARGEST_PREFIX) return NOT_PLAIN;
    i64 bytes = record->size + LARGEST_PREFIX;
    if (out->count && out->bytes + bytes > call->limit) close_batch(call, out, trial);
    if (!out->count && !open_batch(call, out, record)) return NO_ROOM;
    if (__builtin_sub_overflow(record->time, out->base_time, &time)) return NOT_PLAIN;
    u64 time_bits = zigzag(time), number_bits = zigzag(out->count);
    u64 length_bits = zigzag(1 + varint_bytes(time_bits) + varint_bytes(number_bits) + record->size);
    i64 prefix = varint_bytes(length_bits) + 1 + varint_bytes(time_bits) + varint_bytes(number_bits);
    /* If the batches are merged in place, no record may reach beyond the end of where it was. */
    i64 room = call->out == call->block ? record->rest + record->size - call->block : call->out_size;
    if (room - out->used < prefix + record->size || !note_offset(call, out, record->offset, trial)) return NO_ROOM;
    if (!trial) {
        u8 *at = put_varint(call->out + out->used, length_bits);
        *at++ = 0;
        at = put_varint(put_varint(at, time_bits), number_bits);
        memmove(at, record->rest, (size_t)record->size);
    }
    out->used += prefix + record->size;
    out->bytes += bytes;
    out->count++;
    if (record->time > out->max_time) out->max_time = record->time;
    return TAKEN;
}

/* Add the records of a batch that lie in the range. */
static enum Outcome put_records(const Call *call, Out *out, const Batch *batch, int trial) {
    const Header *header = &batch->header;
    Cursor from = {batch->at + HEADER, batch->at + header->size};
    i64 least = header->base;
    for (i64 index = 0; index < header->count; index++) {
        Record record;
        if (!get_record(&from, header, least, &record)) return NOT_PLAIN;
        least = record.offset + 1;
        if (record.offset < batch->position || record.offset >= call->end) continue;
        enum Outcome outcome = put_record(call, out, &record, trial);
        if (outcome != TAKEN) return outcome;
    }
    return from.at == from.end ? TAKEN : NOT_PLAIN;
}

static void put_batch(const Call *call, Out *out, const Batch *batch) {
    put_records(call, out, batch, 0);
    if (out->count) check_up(call, out);
}

/* Say whether a batch could be sent as it is (cutter.py: `_clean`). */
static int is_clean(const Call *call, const Header *header) {
    return !(header->attributes & (LOG_APPEND_TIME | DELETE_HORIZON)) && header->count == header->last_delta + 1 &&
           header->base >= call->position && header->base + header->count <= call->end &&
           header->size <= (header->count > 1 ? call->most_bytes : call->max_message_bytes);
}

/* Say whether it is cheaper to merge a batch than to send it. */
static int is_small(const Call *call, const Header *header) {
    return (double)header->count * call->record_cost + (double)header->size * call->byte_cost < call->batch_cost;
}

/* Merge the batches at the beginning of the block, up to the first that has to go another way. */
EXPORT void twinlog_merge(Call *call) {
    Out planned = {0}, out = {0};
    Batch batch, alone = {0}; /* `alone` is the only one so far; it is not touched until another one comes */
    call->read = call->source = call->no_room = 0;
    call->single = call->epoch = -1;
    while (get_header(call->block + call->read, call->block_size - call->read, &batch.header)) {
        const Header *header = &batch.header;
        i64 next = header->base + header->last_delta + 1;
        batch.at = call->block + call->read;
        batch.position = call->position;
        if (header->base >= call->end || header->base < call->next_offset || next > call->stop) break;
        if (header->attributes & ~(u32)(LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON)) break;
        int left_out = header->attributes & CONTROL || !header->count || next <= call->position;
        int clean = !left_out && is_clean(call, header);
        if (clean && !is_small(call, header)) break;
        if (~crc(~0u, batch.at + CHECKED_FROM, (size_t)(header->size - CHECKED_FROM)) != header->crc) break;
        if (!left_out) {
            Out trial = planned;
            enum Outcome outcome = put_records(call, &trial, &batch, 1);
            call->no_room = outcome == NO_ROOM;
            if (outcome != TAKEN) break;
            planned = trial;
            if (call->source++ == 0 && clean) {
                alone = batch;
            } else {
                if (alone.at) put_batch(call, &out, &alone);
                alone.at = NULL;
                put_batch(call, &out, &batch);
            }
        }
        call->read += header->size;
        call->next_offset = next;
        call->epoch = header->epoch;
        if (next > call->end) next = call->end;
        if (next > call->position) call->position = next;
    }
    if (alone.at) call->single = alone.at - call->block;
    close_batch(call, &out, 0);
    call->merged = out.merged;
    call->written = out.used;
}
