/* Digests of the rows of a JSONL file: canonical JSON and SHA-256 in one pass over the bytes.

   An optional accelerator of digesting.py, which says what it gives and does the same without it. One rule keeps
   it small and right: a line that is not plainly right (an error, a key that is there twice or has an escape, an
   id that is neither text nor an integer, a nesting deeper than any real row's, …) is handed back as "odd", and
   the reference in rows.py decides about it. Nothing here reports an error of its own, save for lack of memory.

   The canonical form is what json.dumps(sort_keys=True, separators=(",", ":"), ensure_ascii=False) writes. It is
   written while the line is parsed; an object whose keys came unsorted is put in order when it ends. With a
   prompt template, the place of the filled input is held by one byte 0x01, which canonical JSON never contains.

   Limited API of Python 3.11: one build serves every newer Python. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef SOURCE
#define SOURCE "" /* the SHA-256 of this file, told by the build: an old module is not used with a newer source */
#endif

#define DEEPEST 200   /* nesting beyond which the reference decides */
#define HOLE 0x01     /* holds the place of the filled input */
#define SLACK 128     /* bytes that are free in the output beyond what is left of the line */

/* ---- SHA-256 (FIPS 180-4) ------------------------------------------------------------------------------- */

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static void compress_portable(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    while (blocks--) {
        uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16
                   | (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + w[i - 7] + (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3)
                   + (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
        for (int i = 0; i < 64; i++) {
            uint32_t t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i];
            uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
        data += 64;
    }
}

#if (defined(__x86_64__) || defined(__i386__)) && (defined(__GNUC__) || defined(__clang__))
#define HAVE_SHA_NI 1
#include <cpuid.h>
#include <immintrin.h>

/* Intel's SHA extensions: two rounds per instruction; the state is kept as ABEF and CDGH. */
__attribute__((target("sha,sse4.1,ssse3")))
static void compress_sha_ni(uint32_t state[8], const uint8_t *data, size_t blocks)
{
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bULL, 0x0405060700010203ULL);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)&state[0]), 0xB1);  /* CDAB */
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)&state[4]), 0x1B); /* EFGH */
    __m128i abef = _mm_alignr_epi8(low, high, 8);
    __m128i cdgh = _mm_blend_epi16(high, low, 0xF0);
    while (blocks--) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(data + 16 * i)), swap);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            __m128i now;
            if (i < 4) {
                now = w[i];
            } else {
                const __m128i last = w[(i + 3) & 3];
                now = _mm_sha256msg1_epu32(w[i & 3], w[(i + 1) & 3]);
                now = _mm_add_epi32(now, _mm_alignr_epi8(last, w[(i + 2) & 3], 4));
                now = _mm_sha256msg2_epu32(now, last);
                w[i & 3] = now;
            }
            now = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)&K[4 * i]));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, now);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(now, 0x0E));
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
        data += 64;
    }
    low = _mm_shuffle_epi32(abef, 0x1B);  /* FEBA */
    high = _mm_shuffle_epi32(cdgh, 0xB1); /* DCHG */
    _mm_storeu_si128((__m128i *)&state[0], _mm_blend_epi16(low, high, 0xF0));
    _mm_storeu_si128((__m128i *)&state[4], _mm_alignr_epi8(high, low, 8));
}

static int has_sha_ni(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & 1u << 9) || !(c & 1u << 19))
        return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29);
}
#endif

static void (*compress)(uint32_t state[8], const uint8_t *data, size_t blocks) = compress_portable;

typedef struct {
    uint32_t state[8];
    uint8_t rest[64];
    size_t kept;
    uint64_t length;
} Sha;

static void sha_start(Sha *sha)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, first, sizeof first);
    sha->kept = 0;
    sha->length = 0;
}

static void sha_add(Sha *sha, const uint8_t *data, size_t size)
{
    sha->length += size;
    if (sha->kept) {
        size_t take = 64 - sha->kept < size ? 64 - sha->kept : size;
        memcpy(sha->rest + sha->kept, data, take);
        sha->kept += take, data += take, size -= take;
        if (sha->kept < 64)
            return;
        compress(sha->state, sha->rest, 1);
        sha->kept = 0;
    }
    if (size >= 64) {
        compress(sha->state, data, size / 64);
        data += size / 64 * 64, size %= 64;
    }
    memcpy(sha->rest, data, size);
    sha->kept = size;
}

static void sha_end(Sha *sha, uint8_t digest[32])
{
    uint64_t bits = sha->length * 8;
    sha->rest[sha->kept++] = 0x80;
    if (sha->kept > 56) {
        memset(sha->rest + sha->kept, 0, 64 - sha->kept);
        compress(sha->state, sha->rest, 1);
        sha->kept = 0;
    }
    memset(sha->rest + sha->kept, 0, 56 - sha->kept);
    for (int i = 0; i < 8; i++)
        sha->rest[56 + i] = (uint8_t)(bits >> (56 - 8 * i));
    compress(sha->state, sha->rest, 1);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 4; j++)
            digest[4 * i + j] = (uint8_t)(sha->state[i] >> (24 - 8 * j));
}

/* ---- a buffer that grows, and what is known while a line is parsed ---------------------------------------- */

typedef struct {
    uint8_t *data;
    size_t size, room;
} Buffer;

static int reserve(Buffer *buffer, size_t more)
{
    if (buffer->room - buffer->size >= more)
        return 0;
    size_t room = buffer->room + buffer->room / 2 + more;
    uint8_t *data = realloc(buffer->data, room);
    if (data == NULL)
        return -1;
    buffer->data = data, buffer->room = room;
    return 0;
}

static void put(Buffer *buffer, const void *data, size_t size)
{
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

typedef struct {
    size_t start;      /* in the output: the key's opening quote */
    size_t key;        /* bytes of the key between its quotes */
    size_t size;       /* bytes of key and value */
} Member;

typedef struct {
    Buffer value;      /* canonical JSON of the field's value */
    const uint8_t *raw; /* the value as the line has it */
    size_t raw_size;
    int there;
} Field;

enum { ODD = -1, NO_MEMORY = -2 };
enum { TASK_ID, PROBLEM_ID, INSTANCE_ID, IDS };

typedef struct {
    const uint8_t *at, *end;   /* what is left of the line */
    Buffer out;                /* canonical JSON so far */
    Buffer sorted;             /* where an object's members are put in order */
    Member *members;           /* of all objects that are not yet ended */
    size_t count, room;
    int filling;               /* whether a prompt template makes the input */
    int params_made;           /* whether the row had no responses_create_params of its own */
    size_t names;              /* fields of the template */
    const uint8_t **name;
    size_t *name_size;
    Field *field;
    Field id[IDS];
} Scan;

static int value(Scan *scan, int depth);

static void blanks(Scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t'))
        scan->at++;
}

/* ---- strings and numbers ---------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 sequence at `at`, or 0 when it is none (overlong forms, surrogates, beyond U+10FFFF). */
static size_t sequence(const uint8_t *at, const uint8_t *end)
{
    uint8_t lead = at[0], low = 0x80, high = 0xBF;
    size_t size;
    if (lead >= 0xC2 && lead <= 0xDF) {
        size = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        size = 3;
        if (lead == 0xE0) low = 0xA0;
        if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        size = 4;
        if (lead == 0xF0) low = 0x90;
        if (lead == 0xF4) high = 0x8F;
    } else {
        return 0;
    }
    if ((size_t)(end - at) < size || at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < size; i++)
        if (at[i] < 0x80 || at[i] > 0xBF)
            return 0;
    return size;
}

static int hex4(const uint8_t *at, uint32_t *code)
{
    uint32_t found = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c = at[i];
        uint32_t digit;
        if (c >= '0' && c <= '9') digit = c - '0';
        else if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
        else return ODD;
        found = found << 4 | digit;
    }
    *code = found;
    return 0;
}

static void put_code(Buffer *out, uint32_t code)
{
    uint8_t bytes[8];
    size_t size = 0;
    static const char digits[] = "0123456789abcdef";
    if (code == '"' || code == '\\') {
        bytes[size++] = '\\', bytes[size++] = (uint8_t)code;
    } else if (code < 0x20) {
        static const char controls[] = "\b\t\n\f\r", letters[] = "btnfr";
        const char *place = memchr(controls, (int)code, sizeof controls - 1);
        bytes[size++] = '\\';
        if (place) {
            bytes[size++] = (uint8_t)letters[place - controls];
        } else {
            bytes[size++] = 'u', bytes[size++] = '0', bytes[size++] = '0';
            bytes[size++] = (uint8_t)digits[code >> 4], bytes[size++] = (uint8_t)digits[code & 15];
        }
    } else if (code < 0x80) {
        bytes[size++] = (uint8_t)code;
    } else if (code < 0x800) {
        bytes[size++] = (uint8_t)(0xC0 | code >> 6), bytes[size++] = (uint8_t)(0x80 | (code & 63));
    } else if (code < 0x10000) {
        bytes[size++] = (uint8_t)(0xE0 | code >> 12), bytes[size++] = (uint8_t)(0x80 | (code >> 6 & 63));
        bytes[size++] = (uint8_t)(0x80 | (code & 63));
    } else {
        bytes[size++] = (uint8_t)(0xF0 | code >> 18), bytes[size++] = (uint8_t)(0x80 | (code >> 12 & 63));
        bytes[size++] = (uint8_t)(0x80 | (code >> 6 & 63)), bytes[size++] = (uint8_t)(0x80 | (code & 63));
    }
    put(out, bytes, size);
}

static int escape(Scan *scan)
{
    const uint8_t *at = scan->at; /* at the backslash */
    if (scan->end - at < 2)
        return ODD;
    switch (at[1]) {
    case '"': case '\\': case 'b': case 'f': case 'n': case 'r': case 't':
        put(&scan->out, at, 2);
        scan->at += 2;
        return 0;
    case '/':
        put(&scan->out, "/", 1);
        scan->at += 2;
        return 0;
    case 'u': {
        uint32_t code, low;
        if (scan->end - at < 6 || hex4(at + 2, &code))
            return ODD;
        scan->at += 6;
        if (code >= 0xD800 && code <= 0xDFFF) {
            if (code > 0xDBFF || scan->end - at < 12 || at[6] != '\\' || at[7] != 'u' || hex4(at + 8, &low)
                || low < 0xDC00 || low > 0xDFFF)
                return ODD;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            scan->at += 6;
        }
        put_code(&scan->out, code);
        return 0;
    }
    default:
        return ODD;
    }
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORDS 1

/* The top bits of those of eight bytes that are a quote, a backslash, a control character or not ASCII. A byte
   behind such a one may be marked without cause (a subtraction borrows from it); the first mark is true. */
static uint64_t special(const uint8_t *at)
{
    const uint64_t ones = 0x0101010101010101ULL, tops = 0x8080808080808080ULL;
    uint64_t word;
    memcpy(&word, at, 8);
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    return (word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & tops;
}
#endif

/* Copies what needs no thought: ASCII up to the next quote, backslash, control character or other byte. */
static void plain_text(Scan *scan)
{
    const uint8_t *at = scan->at, *end = scan->end;
    uint8_t *to = scan->out.data + scan->out.size;
#ifdef WORDS
    while (end - at >= 8) {
        uint64_t marks = special(at);
        memcpy(to, at, 8); /* the room of the output is at the least that of the line */
        size_t size = marks ? (size_t)__builtin_ctzll(marks) >> 3 : 8;
        at += size, to += size;
        if (marks)
            goto done;
    }
#endif
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\')
        *to++ = *at++;
#ifdef WORDS
done:
#endif
    scan->out.size = (size_t)(to - scan->out.data);
    scan->at = at;
}

static int string(Scan *scan)
{
    if (scan->at >= scan->end || *scan->at != '"')
        return ODD;
    put(&scan->out, "\"", 1);
    scan->at++;
    for (;;) {
        plain_text(scan);
        if (scan->at >= scan->end)
            return ODD;
        uint8_t next = *scan->at;
        if (next == '"') {
            put(&scan->out, "\"", 1);
            scan->at++;
            return 0;
        }
        if (next == '\\') {
            if (escape(scan))
                return ODD;
        } else {
            size_t size = next < 0x80 ? 0 : sequence(scan->at, scan->end);
            if (!size)
                return ODD;
            put(&scan->out, scan->at, size);
            scan->at += size;
        }
    }
}

static int is_digit(const Scan *scan, const uint8_t *at) { return at < scan->end && *at >= '0' && *at <= '9'; }

/* Whether a float without an exponent is what float.__repr__ gives: the shortest decimal that means the same
   double, and of those the nearest to it, from 1e-4 to 1e15 without an exponent. 0 where it is not sure.

   Up to 15 digits are always the shortest: doubles hold that many apart. With 16 or 17 digits the literal N/10^k
   and its double m/2^s are compared exactly, in 128 bits: N must be the nearest integer to m*10^k/2^s, and the
   multiples of ten on both sides of it, which shorter literals would be, must mean other doubles. */
static int is_shortest(const uint8_t *start, const uint8_t *point, const uint8_t *end)
{
    if (*start == '-')
        start++;
    size_t whole = (size_t)(point - start), behind = (size_t)(end - point) - 1;
    if (end[-1] == '0' && behind != 1)
        return 0;
    const uint8_t *first = start; /* the first digit that is not zero */
    while (first < end && (*first == '0' || *first == '.'))
        first++;
    if (first == end)
        return behind == 1; /* 0.0 */
    if (first > point && first - point > 4)
        return 0;
    size_t digits = (size_t)(end - first) - (first < point);
    if (whole > 15)
        return 0;
    if (digits <= 15)
        return 1;
#ifdef __SIZEOF_INT128__
    if (digits > 17 || end[-1] == '0')
        return 0;
    typedef unsigned __int128 Wide;
    uint64_t n = 0;
    for (const uint8_t *at = first; at < end; at++)
        if (*at != '.')
            n = n * 10 + (*at - '0');
    Wide power = 1; /* 10^k, at the most 10^21 */
    for (size_t i = 0; i < behind; i++)
        power *= 10;
    /* n/power lies from 1e-4 to 1e15, so that m/2^s with 53 bits in m has an s from 3 to 66, and n*2^s fits */
    int s = 52;
    while ((Wide)n << s < power << 52 && s < 66)
        s++;
    while ((Wide)n << s >= power << 53 && s > 0)
        s--;
    Wide scaled = (Wide)n << s, m = scaled / power, exact = m * power;
    if (scaled - exact > power - (scaled - exact))
        m++, exact += power; /* the nearest; a tie is no one's */
    if (2 * (scaled > exact ? scaled - exact : exact - scaled) >= power)
        return 0;
    if (m <= (Wide)1 << 52 || m >= (Wide)1 << 53)
        return 0; /* where the doubles below lie closer than those above */
    if (2 * (scaled > exact ? scaled - exact : exact - scaled) >= (Wide)1 << s)
        return 0;
    Wide below = (Wide)(n / 10 * 10) << s, above = (Wide)(n / 10 * 10 + 10) << s;
    return 2 * (exact > below ? exact - below : below - exact) > power
           && 2 * (above > exact ? above - exact : exact - above) > power;
#else
    return 0;
#endif
}

static int number(Scan *scan)
{
    const uint8_t *start = scan->at, *at = start, *point = NULL;
    int exponent = 0;
    if (*at == '-')
        at++;
    if (!is_digit(scan, at))
        return ODD;
    if (*at == '0')
        at++;
    else
        while (is_digit(scan, at))
            at++;
    if (at < scan->end && *at == '.') {
        point = at++;
        if (!is_digit(scan, at))
            return ODD;
        while (is_digit(scan, at))
            at++;
    }
    if (at < scan->end && (*at == 'e' || *at == 'E')) {
        exponent = 1;
        at++;
        if (at < scan->end && (*at == '+' || *at == '-'))
            at++;
        if (!is_digit(scan, at))
            return ODD;
        while (is_digit(scan, at))
            at++;
    }
    scan->at = at;
    size_t size = (size_t)(at - start);
    if (!point && !exponent) {
        if (size == 2 && start[0] == '-' && start[1] == '0')
            put(&scan->out, "0", 1);
        else
            put(&scan->out, start, size);
        return 0;
    }
    if (!exponent && is_shortest(start, point, at)) {
        put(&scan->out, start, size);
        return 0;
    }
    char text[64];
    if (size >= sizeof text)
        return ODD;
    memcpy(text, start, size);
    text[size] = 0;
    double found = PyOS_string_to_double(text, NULL, NULL);
    if (found == -1.0 && PyErr_Occurred()) {
        PyErr_Clear();
        return ODD;
    }
    if (found - found != 0.0) /* infinite */
        return ODD;
    char *shortest = PyOS_double_to_string(found, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    if (shortest == NULL) {
        PyErr_Clear();
        return NO_MEMORY;
    }
    size = strlen(shortest);
    if (reserve(&scan->out, size + (size_t)(scan->end - scan->at) + SLACK)) {
        PyMem_Free(shortest);
        return NO_MEMORY;
    }
    put(&scan->out, shortest, size);
    PyMem_Free(shortest);
    return 0;
}

/* ---- objects and arrays ------------------------------------------------------------------------------------ */

static int compare(const uint8_t *out, const Member *one, const Member *other)
{
    size_t size = one->key < other->key ? one->key : other->key;
    int found = memcmp(out + one->start + 1, out + other->start + 1, size);
    if (found)
        return found;
    return one->key < other->key ? -1 : one->key > other->key;
}

/* Sorts by key; UTF-8 sorts as code points do. ODD when a key is there twice. */
static int sort_members(const uint8_t *out, Member *members, size_t count)
{
    if (count > 24) { /* merge sort, for objects that are tables */
        size_t half = count / 2, i = 0, j = half, k = 0;
        int found = sort_members(out, members, half);
        if (!found)
            found = sort_members(out, members + half, count - half);
        if (found)
            return found;
        Member *merged = malloc(count * sizeof *merged);
        if (merged == NULL)
            return NO_MEMORY;
        while (i < half && j < count) {
            found = compare(out, &members[i], &members[j]);
            if (!found) {
                free(merged);
                return ODD;
            }
            merged[k++] = found < 0 ? members[i++] : members[j++];
        }
        while (i < half)
            merged[k++] = members[i++];
        while (j < count)
            merged[k++] = members[j++];
        memcpy(members, merged, count * sizeof *merged);
        free(merged);
        return 0;
    }
    for (size_t i = 1; i < count; i++) {
        Member moved = members[i];
        size_t j = i;
        for (; j; j--) {
            int found = compare(out, &moved, &members[j - 1]);
            if (!found)
                return ODD;
            if (found > 0)
                break;
            members[j] = members[j - 1];
        }
        members[j] = moved;
    }
    return 0;
}

static int is_key(const uint8_t *key, size_t size, const char *name)
{
    return size == strlen(name) && !memcmp(key, name, size);
}

static int capture(const Scan *scan, Field *field, size_t from, const uint8_t *raw)
{
    field->raw = raw, field->raw_size = (size_t)(scan->at - raw);
    field->value.size = 0;
    size_t size = scan->out.size - from;
    if (reserve(&field->value, size))
        return NO_MEMORY;
    put(&field->value, scan->out.data + from, size);
    field->there = 1;
    return 0;
}

static int add_member(Scan *scan, size_t start, size_t key)
{
    if (scan->count == scan->room) {
        size_t room = scan->room * 2 + 64;
        Member *members = realloc(scan->members, room * sizeof *members);
        if (members == NULL)
            return NO_MEMORY;
        scan->members = members, scan->room = room;
    }
    scan->members[scan->count++] = (Member){start, key, scan->out.size - start};
    return 0;
}

/* A member whose value is the filled input, `before` what is written before the hole, `after` behind it. */
static int add_hole(Scan *scan, size_t first, const char *before, size_t key, const char *after)
{
    if (reserve(&scan->out, (size_t)(scan->end - scan->at) + SLACK + 64))
        return NO_MEMORY;
    if (scan->count > first)
        put(&scan->out, ",", 1);
    size_t start = scan->out.size;
    put(&scan->out, before, strlen(before));
    scan->out.data[scan->out.size++] = HOLE;
    put(&scan->out, after, strlen(after));
    return add_member(scan, start, key);
}

enum { PLAIN, ROW, PARAMS };

/* What a top-level member of the row is good for, besides being part of it. */
static int row_member(Scan *scan, const uint8_t *key, size_t size, size_t from, const uint8_t *raw, int *dropped)
{
    static const char *const ids[IDS] = {"task_id", "problem_id", "instance_id"};
    /* the key lies in the output, which `capture` does not move */
    for (int i = 0; i < IDS; i++)
        if (is_key(key, size, ids[i]) && capture(scan, &scan->id[i], from, raw))
            return NO_MEMORY;
    for (size_t i = 0; i < scan->names; i++)
        if (size == scan->name_size[i] && !memcmp(key, scan->name[i], size)
            && capture(scan, &scan->field[i], from, raw))
            return NO_MEMORY;
    if (is_key(key, size, "task_input"))
        return ODD;
    *dropped = is_key(key, size, "agent_ref") || is_key(key, size, "task_source") || is_key(key, size, "skills_ref")
               || (size >= 4 && !memcmp(key, "_ng_", 4));
    return 0;
}

static int object(Scan *scan, int depth, int kind)
{
    size_t first = scan->count, begin = scan->out.size;
    int in_order = 1, found;
    put(&scan->out, "{", 1);
    scan->at++;
    blanks(scan);
    if (scan->at < scan->end && *scan->at == '}') {
        scan->at++;
    } else {
        for (;;) {
            size_t before = scan->out.size;
            if (scan->count > first)
                put(&scan->out, ",", 1);
            size_t start = scan->out.size;
            if (string(scan))
                return ODD;
            size_t key = scan->out.size - start - 2;
            if (memchr(scan->out.data + start, '\\', scan->out.size - start))
                return ODD; /* escapes do not sort as what they stand for */
            blanks(scan);
            if (scan->at >= scan->end || *scan->at != ':')
                return ODD;
            scan->at++;
            put(&scan->out, ":", 1);
            blanks(scan);
            size_t from = scan->out.size;
            const uint8_t *raw = scan->at;
            int inner = PLAIN;
            if (kind == ROW && scan->filling && is_key(scan->out.data + start + 1, key, "responses_create_params")) {
                if (scan->at >= scan->end || *scan->at != '{')
                    return ODD;
                inner = PARAMS;
                scan->params_made = 0;
            }
            if (kind == PARAMS && is_key(scan->out.data + start + 1, key, "input"))
                return ODD;
            found = inner == PARAMS ? object(scan, depth + 1, PARAMS) : value(scan, depth + 1);
            if (found)
                return found;
            int dropped = 0;
            if (kind == ROW) {
                found = row_member(scan, scan->out.data + start + 1, key, from, raw, &dropped);
                if (found)
                    return found;
            }
            if (dropped) {
                scan->out.size = before;
            } else {
                if (add_member(scan, start, key))
                    return NO_MEMORY;
                if (scan->count - first > 1
                    && compare(scan->out.data, &scan->members[scan->count - 2], &scan->members[scan->count - 1]) >= 0)
                    in_order = 0;
            }
            blanks(scan);
            if (scan->at >= scan->end)
                return ODD;
            uint8_t next = *scan->at++;
            if (next == '}')
                break;
            if (next != ',')
                return ODD;
            blanks(scan);
        }
    }
    found = 0;
    if (kind == PARAMS)
        found = add_hole(scan, first, "\"input\":", 5, "");
    else if (kind == ROW && scan->filling && scan->params_made)
        found = add_hole(scan, first, "\"responses_create_params\":{\"input\":", 23, "}");
    if (found)
        return found;
    size_t count = scan->count - first;
    if (count > 1 && (!in_order || (kind != PLAIN && scan->filling))) {
        Member *members = scan->members + first;
        found = sort_members(scan->out.data, members, count);
        if (found)
            return found;
        size_t size = scan->out.size - begin - 1;
        scan->sorted.size = 0;
        if (reserve(&scan->sorted, size))
            return NO_MEMORY;
        for (size_t i = 0; i < count; i++) {
            if (i)
                put(&scan->sorted, ",", 1);
            put(&scan->sorted, scan->out.data + members[i].start, members[i].size);
        }
        memcpy(scan->out.data + begin + 1, scan->sorted.data, scan->sorted.size);
    }
    scan->count = first;
    put(&scan->out, "}", 1);
    return 0;
}

static int array(Scan *scan, int depth)
{
    put(&scan->out, "[", 1);
    scan->at++;
    blanks(scan);
    if (scan->at < scan->end && *scan->at == ']') {
        scan->at++;
        put(&scan->out, "]", 1);
        return 0;
    }
    for (;;) {
        int found = value(scan, depth + 1);
        if (found)
            return found;
        blanks(scan);
        if (scan->at >= scan->end)
            return ODD;
        uint8_t next = *scan->at++;
        put(&scan->out, &next, 1);
        if (next == ']')
            return 0;
        if (next != ',')
            return ODD;
        blanks(scan);
    }
}

static int word(Scan *scan, const char *text)
{
    size_t size = strlen(text);
    if ((size_t)(scan->end - scan->at) < size || memcmp(scan->at, text, size))
        return ODD;
    put(&scan->out, text, size);
    scan->at += size;
    return 0;
}

static int value(Scan *scan, int depth)
{
    if (depth > DEEPEST || scan->at >= scan->end)
        return ODD;
    switch (*scan->at) {
    case '"': return string(scan);
    case '{': return object(scan, depth, PLAIN);
    case '[': return array(scan, depth);
    case 't': return word(scan, "true");
    case 'f': return word(scan, "false");
    case 'n': return word(scan, "null");
    default: return number(scan);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

/* The row's own id as text; `*id` stays NULL when it states none. */
static int stated_id(Scan *scan, PyObject **id)
{
    for (int i = 0; i < IDS; i++) {
        const Buffer *text = &scan->id[i].value;
        if (!scan->id[i].there)
            continue;
        uint8_t lead = text->data[0];
        if (lead == 'n')
            continue;
        if (lead == '"') {
            if (memchr(text->data, '\\', text->size))
                return ODD;
            *id = PyUnicode_DecodeUTF8((const char *)text->data + 1, (Py_ssize_t)text->size - 2, NULL);
        } else {
            for (size_t j = lead == '-'; j < text->size; j++)
                if (text->data[j] < '0' || text->data[j] > '9')
                    return ODD;
            *id = PyUnicode_DecodeUTF8((const char *)text->data, (Py_ssize_t)text->size, NULL);
        }
        return *id == NULL ? NO_MEMORY : 0;
    }
    return 0;
}

static void whole_digest(const Scan *scan, uint8_t digest[32])
{
    Sha sha;
    sha_start(&sha);
    sha_add(&sha, scan->out.data, scan->out.size);
    sha_end(&sha, digest);
}

/* The digest of the row as it is before its prompt is filled: without the member that the hole is in. */
static void unfilled_digest(const Scan *scan, const uint8_t *hole, uint8_t digest[32])
{
    const uint8_t *out = scan->out.data, *end = out + scan->out.size, *start, *stop;
    if (scan->params_made)
        start = hole - strlen("\"responses_create_params\":{\"input\":"), stop = hole + strlen("\1}");
    else
        start = hole - strlen("\"input\":"), stop = hole + 1;
    if (*stop == ',')
        stop++;
    else if (start[-1] == ',')
        start--;
    Sha sha;
    sha_start(&sha);
    sha_add(&sha, out, (size_t)(start - out));
    sha_add(&sha, stop, (size_t)(end - stop));
    sha_end(&sha, digest);
}

/* Adds what Python's `str` makes of an array or an object; ODD when that fails. */
static int add_text(Sha *sha, const Field *field, PyObject *as_text)
{
    char *text;
    Py_ssize_t size;
    PyObject *made = PyObject_CallFunction(as_text, "y#", (const char *)field->raw, (Py_ssize_t)field->raw_size);
    if (made == NULL || PyBytes_AsStringAndSize(made, &text, &size)) {
        Py_XDECREF(made);
        if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
            return NO_MEMORY; /* or a Ctrl-C: what was raised is passed on */
        PyErr_Clear();
        return ODD;
    }
    sha_add(sha, (const uint8_t *)text, (size_t)size);
    Py_DECREF(made);
    return 0;
}

/* The digest of the filled row; ODD when a field of the template is not there. */
static int filled_digest(const Scan *scan, const uint8_t *hole, PyObject *pieces, PyObject *as_text, uint8_t digest[32])
{
    Sha sha;
    sha_start(&sha);
    sha_add(&sha, scan->out.data, (size_t)(hole - scan->out.data));
    Py_ssize_t count = PyTuple_Size(pieces);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *piece = PyTuple_GetItem(pieces, i);
        if (PyBytes_Check(piece)) {
            sha_add(&sha, (const uint8_t *)PyBytes_AsString(piece), (size_t)PyBytes_Size(piece));
            continue;
        }
        const Field *field = &scan->field[PyLong_AsSsize_t(piece)];
        if (!field->there)
            return ODD;
        uint8_t lead = field->value.data[0];
        if (lead == '"')
            sha_add(&sha, field->value.data + 1, field->value.size - 2);
        else if (lead == 't')
            sha_add(&sha, (const uint8_t *)"True", 4);
        else if (lead == 'f')
            sha_add(&sha, (const uint8_t *)"False", 5);
        else if (lead == 'n')
            sha_add(&sha, (const uint8_t *)"None", 4);
        else if (lead != '[' && lead != '{')
            sha_add(&sha, field->value.data, field->value.size);
        else {
            int found = add_text(&sha, field, as_text);
            if (found)
                return found;
        }
    }
    sha_add(&sha, hole + 1, (size_t)(scan->out.data + scan->out.size - hole - 1));
    sha_end(&sha, digest);
    return 0;
}

static int digest_line(Scan *scan, const uint8_t *at, const uint8_t *end, PyObject *pieces, PyObject *as_text,
                       int explicit_ids, PyObject **id, char *stated, uint8_t digest[32])
{
    uint8_t content[32];
    int found;
    scan->at = at, scan->end = end;
    scan->out.size = 0, scan->count = 0, scan->params_made = 1;
    for (int i = 0; i < IDS; i++)
        scan->id[i].there = 0;
    for (size_t i = 0; i < scan->names; i++)
        scan->field[i].there = 0;
    if (reserve(&scan->out, (size_t)(end - at) + SLACK))
        return NO_MEMORY;
    blanks(scan);
    if (scan->at >= scan->end || *scan->at != '{')
        return ODD;
    found = object(scan, 0, ROW);
    if (found)
        return found;
    blanks(scan);
    if (scan->at != scan->end)
        return ODD;
    found = stated_id(scan, id);
    if (found)
        return found;
    *stated = *id != NULL;
    if (!*stated && explicit_ids)
        return ODD;
    if (scan->filling) {
        const uint8_t *hole = memchr(scan->out.data, HOLE, scan->out.size);
        if (hole == NULL)
            return ODD;
        found = filled_digest(scan, hole, pieces, as_text, digest);
        if (found)
            return found;
        if (!*stated)
            unfilled_digest(scan, hole, content);
    } else {
        whole_digest(scan, digest);
        memcpy(content, digest, sizeof content);
    }
    if (!*stated) {
        static const char digits[] = "0123456789abcdef";
        char text[20] = "row-";
        for (int i = 0; i < 8; i++)
            text[4 + 2 * i] = digits[content[i] >> 4], text[5 + 2 * i] = digits[content[i] & 15];
        *id = PyUnicode_DecodeUTF8(text, sizeof text, NULL);
        if (*id == NULL)
            return NO_MEMORY;
    }
    return 0;
}

/* Reads the names of a template's fields; the bytes stay the tuple's. */
static int take_names(Scan *scan, PyObject *names)
{
    scan->names = (size_t)PyTuple_Size(names);
    scan->name = calloc(scan->names + 1, sizeof *scan->name);
    scan->name_size = calloc(scan->names + 1, sizeof *scan->name_size);
    scan->field = calloc(scan->names + 1, sizeof *scan->field);
    if (!scan->name || !scan->name_size || !scan->field) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < scan->names; i++) {
        char *name;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(names, (Py_ssize_t)i), &name, &size))
            return -1;
        scan->name[i] = (const uint8_t *)name;
        scan->name_size[i] = (size_t)size;
    }
    return 0;
}

static int check_pieces(const Scan *scan, PyObject *pieces)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(pieces); i++) {
        PyObject *piece = PyTuple_GetItem(pieces, i);
        if (PyBytes_Check(piece))
            continue;
        Py_ssize_t index = PyLong_AsSsize_t(piece);
        if (index == -1 && PyErr_Occurred())
            return -1;
        if (index < 0 || (size_t)index >= scan->names) {
            PyErr_SetString(PyExc_ValueError, "a template's piece names no field");
            return -1;
        }
    }
    return 0;
}

static void release(Scan *scan)
{
    free(scan->out.data);
    free(scan->sorted.data);
    free(scan->members);
    for (int i = 0; i < IDS; i++)
        free(scan->id[i].value.data);
    for (size_t i = 0; scan->field && i < scan->names; i++)
        free(scan->field[i].value.data);
    free(scan->name);
    free(scan->name_size);
    free(scan->field);
}

static int append(PyObject *list, PyObject *item)
{
    if (item == NULL)
        return -1;
    int found = PyList_Append(list, item);
    Py_DECREF(item);
    return found;
}

PyDoc_STRVAR(digest_lines_doc,
"digest_lines(data, template, explicit, /)\n--\n\n"
"Ids and digests of the rows in whole lines that end at \\n.\n\n"
"Args:\n"
"    data: bytes, without \\r.\n"
"    template: None, or (names of fields, pieces, as_text): the pieces are bytes, and between them indexes of\n"
"        fields; as_text gives, for an array or object as JSON, the bytes that it fills in.\n"
"    explicit: whether a row without an id is odd.\n\n"
"Returns: ids by line; bytes that say whether each is stated; 32 bytes of digest for each line; and the odd lines,\n"
"which have none of these, as (index, start, end).");

static PyObject *digest_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data, *template, *pieces = NULL, *as_text = NULL, *answer = NULL, *stated = NULL, *digests = NULL;
    int explicit_ids;
    if (!PyArg_ParseTuple(args, "SOp:digest_lines", &data, &template, &explicit_ids))
        return NULL;
    Scan scan;
    memset(&scan, 0, sizeof scan);
    PyObject *ids = PyList_New(0), *odd = PyList_New(0), *none = PyUnicode_DecodeUTF8("", 0, NULL);
    Buffer flags = {0}, sums = {0};
    if (!ids || !odd || !none)
        goto done;
    if (template != Py_None) {
        PyObject *names;
        if (!PyArg_ParseTuple(template, "O!O!O", &PyTuple_Type, &names, &PyTuple_Type, &pieces, &as_text)
            || take_names(&scan, names) || check_pieces(&scan, pieces))
            goto done;
        scan.filling = 1;
    }
    const uint8_t *start = (const uint8_t *)PyBytes_AsString(data), *end = start + PyBytes_Size(data), *at = start;
    for (Py_ssize_t index = 0; at < end; index++) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        if (reserve(&flags, 1) || reserve(&sums, 32)) {
            PyErr_NoMemory();
            goto done;
        }
        PyObject *id = NULL;
        char is_stated = 0;
        int found = digest_line(&scan, at, stop, pieces, as_text, explicit_ids, &id, &is_stated,
                                sums.data + sums.size);
        if (found == NO_MEMORY) {
            Py_XDECREF(id);
            if (!PyErr_Occurred())
                PyErr_NoMemory();
            goto done;
        }
        if (found == ODD) {
            Py_XDECREF(id);
            Py_INCREF(none);
            id = none;
            is_stated = 0;
            memset(sums.data + sums.size, 0, 32);
            if (append(odd, Py_BuildValue("nnn", index, (Py_ssize_t)(at - start), (Py_ssize_t)(stop - start)))) {
                Py_DECREF(id);
                goto done;
            }
        }
        sums.size += 32;
        flags.data[flags.size++] = (uint8_t)is_stated;
        if (append(ids, id))
            goto done;
        at = stop + 1;
    }
    stated = PyBytes_FromStringAndSize((const char *)flags.data, (Py_ssize_t)flags.size);
    digests = PyBytes_FromStringAndSize((const char *)sums.data, (Py_ssize_t)sums.size);
    if (stated && digests)
        answer = PyTuple_Pack(4, ids, stated, digests, odd);
done:
    Py_XDECREF(stated);
    Py_XDECREF(digests);
    Py_XDECREF(ids);
    Py_XDECREF(odd);
    Py_XDECREF(none);
    free(flags.data);
    free(sums.data);
    release(&scan);
    return answer;
}

PyDoc_STRVAR(use_sha_instructions_doc,
"use_sha_instructions(wanted, /)\n--\n\n"
"Use the processor's SHA-256 instructions, or not; for tests. Returns whether they are used now.");

static PyObject *use_sha_instructions(PyObject *Py_UNUSED(module), PyObject *wanted)
{
    int want = PyObject_IsTrue(wanted), used = 0;
    if (want < 0)
        return NULL;
    compress = compress_portable;
#ifdef HAVE_SHA_NI
    if (want && has_sha_ni()) {
        compress = compress_sha_ni;
        used = 1;
    }
#endif
    return PyBool_FromLong(used);
}

static PyMethodDef methods[] = {
    {"digest_lines", digest_lines, METH_VARARGS, digest_lines_doc},
    {"use_sha_instructions", use_sha_instructions, METH_O, use_sha_instructions_doc},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", "Digests of the rows of a JSONL file.", -1,
                                    methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__native(void)
{
#ifdef HAVE_SHA_NI
    if (has_sha_ni())
        compress = compress_sha_ni;
#endif
    PyObject *made = PyModule_Create(&module);
    if (made != NULL && PyModule_AddStringConstant(made, "source", SOURCE)) {
        Py_DECREF(made);
        return NULL;
    }
    return made;
}
