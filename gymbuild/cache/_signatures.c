/* Compares many files with the signatures that they had, by stat alone.

   An optional accelerator of witness.py, which says what a signature is and does the same without it. A path that
   was looked at is not looked at again, so that what thousands of tasks share costs one stat.

   Limited API of Python 3.11: one build serves every newer Python. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef SOURCE
#define SOURCE "" /* the digest of this file, told by the build: an old module is not used with a newer source */
#endif

#define FIELDS 5
#define WIDTH (FIELDS * 8) /* bytes of a signature; all zero: nothing is there */

#ifdef __APPLE__
#define MTIME st_mtimespec
#define CTIME st_ctimespec
#else
#define MTIME st_mtim
#define CTIME st_ctim
#endif

typedef struct {
    char *path; /* NULL: free */
    size_t length;
    uint64_t hash;
    unsigned char found[WIDTH];
} Slot;

typedef struct {
    int folder; /* that relative paths start from */
    Slot *slots;
    size_t room, used;
} Look;

static const char NAME[] = "gymbuild.look";

static uint64_t hash_of(const char *path, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)path[i]) * 0x100000001b3ULL;
    return hash ^ hash >> 32;
}

static Slot *slot_of(Slot *slots, size_t room, const char *path, size_t length, uint64_t hash)
{
    size_t at = hash & (room - 1);
    while (slots[at].path != NULL
           && (slots[at].hash != hash || slots[at].length != length || memcmp(slots[at].path, path, length)))
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static int grow(Look *look)
{
    size_t room = look->room ? look->room * 2 : 1024;
    Slot *slots = calloc(room, sizeof(Slot));
    if (slots == NULL)
        return 0;
    for (size_t i = 0; i < look->room; i++)
        if (look->slots[i].path != NULL) {
            Slot *old = &look->slots[i];
            *slot_of(slots, room, old->path, old->length, old->hash) = *old;
        }
    free(look->slots);
    look->slots = slots;
    look->room = room;
    return 1;
}

static void put(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* What stat says of a path that ends with a zero byte; NULL for lack of memory. */
static const unsigned char *look_at(Look *look, const char *path, size_t length)
{
    if (look->used * 3 >= look->room * 2 && !grow(look))
        return NULL;
    uint64_t hash = hash_of(path, length);
    Slot *slot = slot_of(look->slots, look->room, path, length, hash);
    if (slot->path != NULL)
        return slot->found;
    char *copy = malloc(length + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, path, length + 1);
    struct stat status;
    if (fstatat(look->folder, path, &status, 0) == 0) {
        put(slot->found, (uint64_t)status.st_dev);
        put(slot->found + 8, (uint64_t)status.st_ino);
        put(slot->found + 16, (uint64_t)status.st_size);
        put(slot->found + 24, (uint64_t)status.MTIME.tv_sec * 1000000000u + (uint64_t)status.MTIME.tv_nsec);
        put(slot->found + 32, (uint64_t)status.CTIME.tv_sec * 1000000000u + (uint64_t)status.CTIME.tv_nsec);
    }
    slot->path = copy;
    slot->length = length;
    slot->hash = hash;
    look->used++;
    return slot->found;
}

static void end_look(PyObject *capsule)
{
    Look *look = PyCapsule_GetPointer(capsule, NAME);
    if (look == NULL)
        return;
    if (look->folder >= 0)
        close(look->folder);
    for (size_t i = 0; i < look->room; i++)
        free(look->slots[i].path);
    free(look->slots);
    free(look);
}

static PyObject *start_look(PyObject *module, PyObject *args)
{
    const char *root;
    (void)module;
    if (!PyArg_ParseTuple(args, "y", &root))
        return NULL;
    Look *look = calloc(1, sizeof(Look));
    if (look == NULL)
        return PyErr_NoMemory();
#ifdef O_PATH
    look->folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
#else
    look->folder = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
#endif
    if (look->folder < 0) {
        free(look);
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, root);
    }
    PyObject *capsule = PyCapsule_New(look, NAME, end_look);
    if (capsule == NULL) {
        close(look->folder);
        free(look);
    }
    return capsule;
}

static PyObject *differences(PyObject *module, PyObject *args)
{
    PyObject *capsule, *result = NULL;
    const char *paths;
    const unsigned char *expected;
    Py_ssize_t paths_size, expected_size, most, first, last, count, at = 0, position = 0, differing = 0;
    int memory = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oy#y#nnn", &capsule, &paths, &paths_size, &expected, &expected_size, &most,
                          &first, &last))
        return NULL;
    Look *look = PyCapsule_GetPointer(capsule, NAME);
    if (look == NULL)
        return NULL;
    count = expected_size / WIDTH;
    if (most <= 0 || most > count)
        most = count;
    Py_ssize_t *found = malloc(sizeof(Py_ssize_t) * (size_t)(most + 1));
    if (found == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    /* a bytes object ends with a zero byte that its size does not count */
    for (; at < count && position <= paths_size && differing < most; at++) {
        const char *path = paths + position;
        size_t length = strlen(path);
        position += (Py_ssize_t)length + 1;
        if (at < first || at >= last)
            continue;
        const unsigned char *now = look_at(look, path, length);
        if (now == NULL) {
            memory = 0;
            break;
        }
        if (memcmp(now, expected + WIDTH * at, WIDTH))
            found[differing++] = at;
    }
    Py_END_ALLOW_THREADS
    if (!memory)
        PyErr_NoMemory();
    else if ((differing < most || !count)
             && (at < count || (count ? position != paths_size + 1 : paths_size) || expected_size % WIDTH))
        PyErr_SetString(PyExc_ValueError, "there are not as many paths as signatures");
    else
        result = PyList_New(differing);
    for (Py_ssize_t i = 0; result != NULL && i < differing; i++) {
        PyObject *number = PyLong_FromSsize_t(found[i]);
        if (number == NULL || PyList_SetItem(result, i, number) < 0)
            Py_CLEAR(result);
    }
    free(found);
    return result;
}

static PyMethodDef methods[] = {
    {"start_look", start_look, METH_VARARGS, "A new look at the files of a checkout, given as bytes."},
    {"differences", differences, METH_VARARGS, "The first so many paths of a range that differ."},
    {NULL, NULL, 0, NULL}};

static int fill(PyObject *module) { return PyModule_AddStringConstant(module, "source", SOURCE); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_signatures", "Compares many files by stat.",
                                 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__signatures(void) { return PyModuleDef_Init(&definition); }
