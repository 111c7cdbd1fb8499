/* A double of libnvidia-ml.so.1: the functions that the reader calls, with NVML's binary layouts and return codes.
 *
 * Its state is a table of names and values that a test fills through double_set and double_text. The names start with the
 * card ("0.power"), or with the card and the position of a MIG slice ("0/2.memory.used"). What is absent from the table
 * is NOT_SUPPORTED; "name!" holds a return code to give instead. Layouts and codes: NVML API reference.
 * In a process that the test does not share the table is a file, the one that the variable NVML_DOUBLE names: a line per
 * name, with "=TEXT" or a number behind a tab. It is read again whenever another file has taken its place.
 * Built with -DOLD it lacks what drivers before R470 lack.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OK, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10 };

/* -- the table ---------------------------------------------------------------------------------------------------- */
#ifndef SLOTS
#define SLOTS 65536
#endif
#define ALWAYS ~0u
static struct { char name[56]; unsigned written; double value; char text[96]; } table[SLOTS];
static unsigned edition;  /* of the file; what only an earlier one held is absent */
static char *log_text;
static size_t log_size, log_used;
static int ready;

static unsigned slot_of(const char *name) {
    unsigned hash = 2166136261u;
    for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 16777619u;
    unsigned slot = hash % SLOTS;
    while (table[slot].name[0] && strcmp(table[slot].name, name)) slot = (slot + 1) % SLOTS;
    return slot;
}

void double_set(const char *name, double value) {
    unsigned slot = slot_of(name);
    snprintf(table[slot].name, sizeof table[slot].name, "%s", name);
    table[slot].value = value;
    table[slot].written = ALWAYS;
}

void double_text(const char *name, const char *text) {
    double_set(name, 0);
    snprintf(table[slot_of(name)].text, sizeof table[0].text, "%s", text);
}

void double_unset(const char *name) {  /* it stays in its chain, as a name that no one asks for */
    unsigned slot = slot_of(name);
    if (table[slot].name[0]) snprintf(table[slot].name, sizeof table[slot].name, "-");
}

void double_reset(void) {
    memset(table, 0, sizeof table);
    log_used = 0;
    ready = 0;
}

const char *double_log(void) { return log_used ? log_text : ""; }
void double_forget(void) { log_used = 0; }

static int find(const char *name, double *value) {
    unsigned slot = slot_of(name);
    if (!table[slot].name[0] || table[slot].written < edition) return 0;
    *value = table[slot].value;
    return 1;
}

static double get(const char *name, double otherwise) {
    double value;
    return find(name, &value) ? value : otherwise;
}

/* -- the table as a file ------------------------------------------------------------------------------------------ */
static void read_file(const char *path) {
    char line[256];
    FILE *file = fopen(path, "r");
    if (!file) return;
    while (fgets(line, sizeof line, file)) {
        char *value = strchr(line, '\t');
        if (!value) continue;
        *value++ = 0;
        value[strcspn(value, "\n")] = 0;
        if (*value == '=') double_text(line, value + 1);
        else double_set(line, strtod(value, NULL));
        table[slot_of(line)].written = edition + 1;
    }
    fclose(file);
    edition++;
}

static int from_file(void) {  /* whether there is one; two threads may ask at once */
    static int busy;
    static ino_t node;
    const char *path = getenv("NVML_DOUBLE");
    struct stat now;
    if (!path) return 0;
    while (__sync_lock_test_and_set(&busy, 1)) usleep(100);
    if (!stat(path, &now) && now.st_ino != node) node = now.st_ino, read_file(path);
    __sync_lock_release(&busy);
    return 1;
}

/* -- devices ------------------------------------------------------------------------------------------------------ */
struct device { int card, position; char prefix[24]; };
static struct device devices[64][16];

static struct device *device_of(int card, int position) {  /* position -1: the card */
    struct device *device = &devices[card][position + 1];
    device->card = card;
    device->position = position;
    if (position < 0) snprintf(device->prefix, sizeof device->prefix, "%d", card);
    else snprintf(device->prefix, sizeof device->prefix, "%d/%d", card, position);
    return device;
}

/* Notes the call, sleeps where the table says so, and gives the code that stands against it. */
static int enter(const char *function, const struct device *device, long argument) {
    char line[128], name[96];
    int length = snprintf(line, sizeof line, "%s(%s,%ld)\n", function, device ? device->prefix : "", argument);
    int shared = from_file();
    if (!shared) {  /* nobody could ask another process for the log */
        if (log_used + (size_t)length + 1 > log_size) log_text = realloc(log_text, log_size = (log_size + 4096) * 2);
        memcpy(log_text + log_used, line, (size_t)length + 1);
        log_used += (size_t)length;
    }
    snprintf(name, sizeof name, "sleep.%s", function);
    if (!shared && get(name, 0) > 0) usleep((useconds_t)(get(name, 0) * 1000));
    for (double ms = 0; shared && ms < get(name, 0); ms += 10, from_file()) usleep(10000);
    snprintf(name, sizeof name, "%s!", function);
    double code;
    if (find(name, &code) && code) return (int)code;
    if (!ready || get("over", 0)) return get("over", 0) ? (int)get("over", 0) : UNINITIALIZED;
    if (device) {
        snprintf(name, sizeof name, "%d.lost", device->card);
        if (find(name, &code) && code) return (int)code;
    }
    return OK;
}

static int value_of(const struct device *device, const char *name, double *value) {
    char full[96];
    double code;
    snprintf(full, sizeof full, "%s.%s!", device->prefix, name);
    if (find(full, &code) && code) return (int)code;
    snprintf(full, sizeof full, "%s.%s", device->prefix, name);
    return find(full, value) ? OK : NOT_SUPPORTED;
}

#define ENTER(function, device, argument) do { int code_ = enter(function, device, argument); if (code_) return code_; } while (0)

static int number(const char *function, struct device *device, long argument, const char *name, unsigned *out) {
    double value;
    ENTER(function, device, argument);
    int code = value_of(device, name, &value);
    if (!code) *out = (unsigned)value;
    return code;
}

static int words(const char *function, struct device *device, const char *name, char *out, unsigned size) {
    char full[96];
    double value;
    ENTER(function, device, 0);
    int code = value_of(device, name, &value);
    if (code) return code;
    snprintf(full, sizeof full, "%s.%s", device->prefix, name);
    const char *text = table[slot_of(full)].text;
    if (strlen(text) + 1 > size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return OK;
}

/* -- the driver --------------------------------------------------------------------------------------------------- */
int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ready = 1;
    from_file();
    int code = (int)get("init!", 0);
    if (code) return code;
    double_set("over", 0);
    return enter("nvmlInit", NULL, 0);
}
int nvmlShutdown(void) { ready = 0; return OK; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the double"; }
int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ENTER("nvmlSystemGetDriverVersion", NULL, 0);
    snprintf(out, size, "%s", table[slot_of("driver")].text);
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
    ENTER("nvmlDeviceGetCount", NULL, 0);
    *count = (unsigned)get("cards", 0);
    return OK;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out) {
    char name[32];
    double code;
    ENTER("nvmlDeviceGetHandleByIndex", NULL, index);
    if (index >= get("cards", 0)) return INVALID_ARGUMENT;
    snprintf(name, sizeof name, "%u.open!", index);
    if (find(name, &code) && code) return (int)code;
    *out = device_of((int)index, -1);
    return OK;
}

/* -- facts -------------------------------------------------------------------------------------------------------- */
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; } pci_t;

int nvmlDeviceGetUUID(struct device *d, char *out, unsigned size) { return words("nvmlDeviceGetUUID", d, "uuid", out, size); }
int nvmlDeviceGetName(struct device *d, char *out, unsigned size) { return words("nvmlDeviceGetName", d, "name", out, size); }
int nvmlDeviceGetPciInfo_v3(struct device *d, pci_t *out) {
    memset(out, 0, sizeof *out);
    return number("nvmlDeviceGetPciInfo", d, 0, "bus", &out->bus);
}
int nvmlDeviceGetMaxClockInfo(struct device *d, int type, unsigned *out) {
    return number("nvmlDeviceGetMaxClockInfo", d, type, type == 1 ? "clock.sm.max" : "clock.memory.max", out);
}
int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending) {
    int code = number("nvmlDeviceGetMigMode", d, 0, "mig", current);
    *pending = *current;
    return code;
}
int nvmlDeviceGetTopologyCommonAncestor(struct device *one, struct device *other, int *out) {
    char name[32];
    double value;
    ENTER("nvmlDeviceGetTopologyCommonAncestor", one, other->card);
    snprintf(name, sizeof name, "topology.%d", other->card);
    int code = value_of(one, name, &value);
    if (!code) *out = (int)value;
    return code;
}
static const char *of_link(unsigned link, const char *what) {
    static char name[40];
    snprintf(name, sizeof name, "link.%u.%s", link, what);
    return name;
}
int nvmlDeviceGetNvLinkState(struct device *d, unsigned link, unsigned *out) {
    return number("nvmlDeviceGetNvLinkState", d, link, of_link(link, "state"), out);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *d, unsigned link, pci_t *out) {
    memset(out, 0, sizeof *out);
    return number("nvmlDeviceGetNvLinkRemotePciInfo", d, link, of_link(link, "bus"), &out->bus);
}

/* -- numbers ------------------------------------------------------------------------------------------------------ */
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2_t;

static int memory(struct device *d, memory_v2_t *out) {
    double total, used, reserved = 0;
    int code = value_of(d, "memory.total", &total);
    if (!code) code = value_of(d, "memory.used", &used);
    if (code) return code;
    value_of(d, "memory.reserved", &reserved);
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)used;
    out->reserved = (unsigned long long)reserved;
    out->free = out->total - out->used - out->reserved;
    return OK;
}
int nvmlDeviceGetMemoryInfo(struct device *d, memory_t *out) {
    memory_v2_t all;
    ENTER("nvmlDeviceGetMemoryInfo", d, 1);
    int code = memory(d, &all);
    if (code) return code;
    *out = (memory_t){all.total, all.free, all.used + all.reserved};
    return OK;
}
typedef struct { unsigned gpu, memory; } utilization_t;
int nvmlDeviceGetUtilizationRates(struct device *d, utilization_t *out) {
    double share = 0;
    int code = number("nvmlDeviceGetUtilizationRates", d, 0, "busy", &out->gpu);
    value_of(d, "busy.memory", &share);
    out->memory = (unsigned)share;
    return code;
}
int nvmlDeviceGetPowerUsage(struct device *d, unsigned *out) { return number("nvmlDeviceGetPowerUsage", d, 0, "power", out); }
int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned *out) {
    return number("nvmlDeviceGetEnforcedPowerLimit", d, 0, "power.limit", out);
}
int nvmlDeviceGetTemperature(struct device *d, int sensor, unsigned *out) {
    return number("nvmlDeviceGetTemperature", d, sensor, "temperature", out);
}
int nvmlDeviceGetClockInfo(struct device *d, int type, unsigned *out) {
    return number("nvmlDeviceGetClockInfo", d, type, type == 1 ? "clock.sm" : "clock.memory", out);
}
int nvmlDeviceGetCurrPcieLinkGeneration(struct device *d, unsigned *out) {
    return number("nvmlDeviceGetCurrPcieLinkGeneration", d, 0, "pcie.generation", out);
}
int nvmlDeviceGetCurrPcieLinkWidth(struct device *d, unsigned *out) {
    return number("nvmlDeviceGetCurrPcieLinkWidth", d, 0, "pcie.width", out);
}

typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; } any_t;
typedef struct { unsigned field, scope; long long timestamp, latency; int type, code; any_t value; } field_t;

int nvmlDeviceGetFieldValues(struct device *d, int count, field_t *items) {
    ENTER("nvmlDeviceGetFieldValues", d, count ? items[0].field : 0);
    for (int i = 0; i < count; i++) {
        char name[40], type[48];
        double value, kind;
        snprintf(name, sizeof name, items[i].scope == 0xFFFFFFFFu ? "field.%u@all" : "field.%u", items[i].field);
        items[i].code = value_of(d, name, &value);
        if (items[i].code) continue;
        snprintf(type, sizeof type, "%s:type", name);
        items[i].type = value_of(d, type, &kind) ? 3 : (int)kind;
        items[i].value.ull = 0;
        switch (items[i].type) {
            case 0: items[i].value.d = value; break;
            case 1: items[i].value.ui = (unsigned)(unsigned long long)value; break;
            case 2: items[i].value.ul = (unsigned long)value; break;
            case 4: items[i].value.sll = (long long)value; break;
            case 5: items[i].value.si = (int)value; break;
            case 6: items[i].value.us = (unsigned short)value; break;
            default: items[i].value.ull = (unsigned long long)value;
        }
    }
    return OK;
}
int nvmlDeviceGetTotalEccErrors(struct device *d, int type, int counter, unsigned long long *out) {
    double value;
    ENTER("nvmlDeviceGetTotalEccErrors", d, type * 10 + counter);
    int code = value_of(d, type ? "ecc.uncorrected" : "ecc.corrected", &value);
    if (!code) *out = (unsigned long long)value;
    return code;
}
typedef struct { unsigned long long reference, violation; } violation_t;
int nvmlDeviceGetViolationStatus(struct device *d, int policy, violation_t *out) {
    char name[24];
    double value;
    ENTER("nvmlDeviceGetViolationStatus", d, policy);
    snprintf(name, sizeof name, "violation.%d", policy);
    int code = value_of(d, name, &value);
    if (!code) *out = (violation_t){0, (unsigned long long)value};
    return code;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, unsigned long long *out) {
    unsigned bits = 0;
    int code = number("nvmlDeviceGetCurrentClocksThrottleReasons", d, 0, "reasons", &bits);
    *out = bits;
    return code;
}

/* -- processes: the first call asks for the number of them -------------------------------------------------------- */
typedef struct { unsigned pid; unsigned long long used; unsigned instance, compute; } process_t;

static int processes(const char *function, struct device *d, const char *kind, unsigned *count, process_t *out) {
    char name[48];
    double value;
    unsigned room = *count;
    ENTER(function, d, out ? 1 : 0);
    int code = value_of(d, kind, &value);
    if (code == NOT_SUPPORTED) value = 0, code = OK;
    if (code) return code;
    *count = (unsigned)value;
    if (*count == 0) return OK;
    if (room < *count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++) {
        snprintf(name, sizeof name, "%s.%u.pid", kind, i);
        value_of(d, name, &value);
        out[i].pid = (unsigned)value;
        snprintf(name, sizeof name, "%s.%u.used", kind, i);
        out[i].used = value_of(d, name, &value) ? ~0ull : (unsigned long long)value;
        out[i].instance = out[i].compute = ~0u;
    }
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned *count, process_t *out) {
    return processes("nvmlDeviceGetComputeRunningProcesses", d, "compute", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v2(struct device *d, unsigned *count, process_t *out) {
    return processes("nvmlDeviceGetGraphicsRunningProcesses", d, "graphics", count, out);
}

/* -- events: "0.xid" holds how many wait, "0.xid.N" their codes --------------------------------------------------- */
typedef struct { struct device *device; unsigned long long type, data; unsigned instance, compute; } event_t;
struct events { struct device *device; };

int nvmlEventSetCreate(struct events **out) {
    ENTER("nvmlEventSetCreate", NULL, 0);
    *out = calloc(1, sizeof **out);
    return OK;
}
int nvmlDeviceRegisterEvents(struct device *d, unsigned long long types, struct events *set) {
    double code;
    char name[32];
    ENTER("nvmlDeviceRegisterEvents", d, (long)types);
    snprintf(name, sizeof name, "%s.events!", d->prefix);
    if (find(name, &code) && code) return (int)code;
    set->device = d;
    return OK;
}
int nvmlEventSetWait_v2(struct events *set, event_t *out, unsigned ms) {
    char name[40];
    double waiting = 0, taken = 0, code = 0;
    (void)ms;
    /* a card that has fallen still hands out what it had to say before */
    snprintf(name, sizeof name, "%s.xid.taken", set->device->prefix);
    taken = get(name, 0);
    enter("nvmlEventSetWait", NULL, set->device->card * 1000 + (long)taken);
    value_of(set->device, "xid", &waiting);
    if (taken >= waiting) {
        snprintf(name, sizeof name, "%d.lost", set->device->card);
        return find(name, &code) && code ? (int)code : TIMEOUT;
    }
    double_set(name, taken + 1);
    snprintf(name, sizeof name, "xid.%d", (int)taken);
    value_of(set->device, name, &code);
    *out = (event_t){set->device, 8, (unsigned long long)code, ~0u, ~0u};
    return OK;
}
int nvmlEventSetFree(struct events *set) { free(set); return OK; }

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(struct device *d, memory_v2_t *out) {
    if (out->version != (sizeof(memory_v2_t) | 2 << 24)) return 25;
    ENTER("nvmlDeviceGetMemoryInfo", d, 2);
    return memory(d, out);
}
typedef struct { unsigned version; int sensor, temperature; } temperature_t;
int nvmlDeviceGetTemperatureV(struct device *d, temperature_t *out) {
    unsigned value = 0;
    if (out->version != (sizeof(temperature_t) | 1 << 24)) return 25;
    int code = number("nvmlDeviceGetTemperatureV", d, out->sensor, "temperature", &value);
    out->temperature = (int)value;
    return code;
}
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, unsigned long long *out) {
    unsigned bits = 0;
    int code = number("nvmlDeviceGetCurrentClocksEventReasons", d, 0, "reasons", &bits);
    *out = bits;
    return code;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(struct device *d, unsigned link, unsigned *out) {
    return number("nvmlDeviceGetNvLinkRemoteDeviceType", d, link, of_link(link, "kind"), out);
}
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *count, process_t *out) {
    return processes("nvmlDeviceGetComputeRunningProcesses", d, "compute", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *d, unsigned *count, process_t *out) {
    return processes("nvmlDeviceGetGraphicsRunningProcesses", d, "graphics", count, out);
}

/* MIG: "0.slices" positions, of which "0/N.instance" holds the GPU instance where there is one */
int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *out) {
    return number("nvmlDeviceGetMaxMigDeviceCount", d, 0, "slices", out);
}
int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned index, struct device **out) {
    double instance;
    ENTER("nvmlDeviceGetMigDeviceHandleByIndex", d, index);
    struct device *slice = device_of(d->card, (int)index);
    if (value_of(slice, "instance", &instance)) return NOT_FOUND;
    *out = slice;
    return OK;
}
int nvmlDeviceGetGpuInstanceId(struct device *d, unsigned *out) {
    return number("nvmlDeviceGetGpuInstanceId", d, 0, "instance", out);
}

/* GPM: counters "0.gpm.ID" (units times ms) and the moment "time" (ms); a metric is growth over time passed */
struct sample { double time; struct device *device; double value[64]; };
typedef struct { const char *brief, *full, *unit; } metric_info_t;
typedef struct { unsigned id; int code; double value; metric_info_t info; } metric_t;
typedef struct { unsigned version, count; struct sample *earlier, *later; metric_t metrics[1]; } metrics_t;
typedef struct { unsigned version, supported; } gpm_support_t;

int nvmlGpmQueryDeviceSupport(struct device *d, gpm_support_t *out) {
    ENTER("nvmlGpmQueryDeviceSupport", d, 0);
    double value = 0;
    value_of(d, "gpm", &value);
    out->supported = value != 0;
    return OK;
}
int nvmlGpmSampleAlloc(struct sample **out) {
    ENTER("nvmlGpmSampleAlloc", NULL, 0);
    *out = calloc(1, sizeof **out);
    return OK;
}
int nvmlGpmSampleFree(struct sample *sample) { free(sample); return OK; }
static int take(struct device *d, struct sample *sample) {
    char name[24];
    struct timespec now;
    int runs = from_file();  /* there the value is what a counter grows by, and time is the clock's */
    clock_gettime(CLOCK_MONOTONIC, &now);
    sample->time = runs ? (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6 : get("time", 0);
    sample->device = d;
    for (int id = 0; id < 64; id++) {
        snprintf(name, sizeof name, "gpm.%d", id);
        if (value_of(d, name, &sample->value[id])) sample->value[id] = -1;
        else if (runs) sample->value[id] *= sample->time;
    }
    return OK;
}
int nvmlGpmSampleGet(struct device *d, struct sample *sample) {
    ENTER("nvmlGpmSampleGet", d, 0);
    return take(d, sample);
}
int nvmlGpmMigSampleGet(struct device *d, unsigned instance, struct sample *sample) {
    ENTER("nvmlGpmMigSampleGet", d, instance);
    double code;
    if (find("gpm.slices!", &code) && code) return (int)code;
    for (int position = 0; position < 15; position++) {
        double found;
        if (!value_of(device_of(d->card, position), "instance", &found) && found == instance)
            return take(device_of(d->card, position), sample);
    }
    return NOT_FOUND;
}
int nvmlGpmMetricsGet(metrics_t *ask) {
    if (ask->version != 1) return 25;
    ENTER("nvmlGpmMetricsGet", ask->later->device, 0);
    double passed = ask->later->time - ask->earlier->time;
    if (passed < 100 || ask->earlier->device != ask->later->device) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < ask->count; i++) {
        unsigned id = ask->metrics[i].id;
        double before = ask->earlier->value[id], after = ask->later->value[id];
        ask->metrics[i].code = before < 0 || after < 0 ? NOT_SUPPORTED : OK;
        ask->metrics[i].value = (after - before) / passed;
    }
    return OK;
}
#endif
