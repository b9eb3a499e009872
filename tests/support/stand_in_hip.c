/* A stand-in for libamdhip64.so: HIP's calls as the headers declare them, on memory of this process.

   It "runs" one kernel, a vector addition f32: x, y, out, n (the argument segment of tests/data/launches/vector_add).
   What a code object does beside is said by ASMEVO_STAND_IN, a list of "hash=behaviour" where the hash is FNV-1a of the
   code object's bytes. Every call is written to the file ASMEVO_STAND_IN_LOG with the process's number, launches with
   their arguments. PROPERTIES_BYTES and ARCHITECTURE_AT are the layout of hipDeviceProp_t, by who builds this. */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int hipError_t;
typedef struct { const unsigned char *image; uint64_t hash; } module_t;
typedef struct { module_t *module; char name[64]; } function_t;
typedef struct { float at; int recorded; } event_t;

static char pending[64];
static int pending_error;
static unsigned launches, modules;

static void note(const char *words) {
  const char *file = getenv("ASMEVO_STAND_IN_LOG");
  FILE *log = file ? fopen(file, "a") : NULL;
  if (!log) return;
  fprintf(log, "%d %s\n", (int)getpid(), words);
  fclose(log);
}

static const char *setting(const char *name, const char *otherwise) {
  const char *found = getenv(name);
  return found ? found : otherwise;
}

static uint64_t hash_of(const unsigned char *image) {
  uint64_t table; uint16_t size, count;
  memcpy(&table, image + 40, 8); memcpy(&size, image + 58, 2); memcpy(&count, image + 60, 2);
  uint64_t end = table + (uint64_t)size * count, hash = 0xcbf29ce484222325u;
  for (uint64_t place = 0; place < end; place++) hash = (hash ^ image[place]) * 0x100000001b3u;
  return hash;
}

static void behaviour_of(uint64_t hash, char *found) {
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%016llx=", (unsigned long long)hash);
  const char *place = strstr(setting("ASMEVO_STAND_IN", ""), wanted);
  found[0] = 0;
  if (place) sscanf(place + 17, "%63[a-z0-9_]", found);
}

const char *hipGetErrorString(hipError_t code) {
  return code == 100 ? "no ROCm-capable device is detected" : code == 700 ? "an illegal memory access" : "stand-in error";
}

hipError_t hipInit(unsigned flags) {
  note("hipInit");
  puts("a line that the runtime prints");
  fflush(stdout);
  const char *way = setting("ASMEVO_STAND_IN_INIT", "");
  if (!strcmp(way, "hang")) for (;;) sleep(1);
  return atoi(way);
}
hipError_t hipGetDeviceCount(int *count) { note("hipGetDeviceCount"); *count = atoi(setting("ASMEVO_STAND_IN_GPUS", "1")); return 0; }
hipError_t hipSetDevice(int device) { note("hipSetDevice"); return 0; }
hipError_t hipRuntimeGetVersion(int *version) { *version = 60443484; return 0; }
hipError_t hipDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Stand-in %d", device); return 0; }

#ifdef OLD
hipError_t hipGetDeviceProperties(void *raw, int device) {
#else
hipError_t hipGetDeviceProperties(void *raw, int device) { abort(); }
hipError_t hipGetDevicePropertiesR0600(void *raw, int device) {
#endif
  memset(raw, 0, PROPERTIES_BYTES);
  strcpy(raw, "gfx stand-in");
  strcpy((char *)raw + ARCHITECTURE_AT, setting("ASMEVO_STAND_IN_GPU", "gfx942:sramecc+:xnack-"));
  for (int place = ARCHITECTURE_AT + 256; place < PROPERTIES_BYTES; place++) ((char *)raw)[place] = 1;
  return 0;
}

hipError_t hipMalloc(void **address, size_t size) {
  note("hipMalloc");
  if (posix_memalign(address, 256, size)) return 2;
  memset(*address, 0xee, size);
  return 0;
}
hipError_t hipFree(void *address) { free(address); return 0; }
hipError_t hipMemcpyHtoD(void *to, const void *from, size_t size) { memcpy(to, from, size); return 0; }
hipError_t hipMemcpyDtoH(void *to, const void *from, size_t size) {
  memcpy(to, from, size);
  if (getenv("ASMEVO_STAND_IN_LOSES")) ((char *)to)[size / 2] ^= 1;
  return 0;
}

hipError_t hipModuleLoadData(module_t **module, const unsigned char *image) {
  note("hipModuleLoadData");
  modules++;
  *module = malloc(sizeof **module);
  (*module)->image = image;
  (*module)->hash = hash_of(image);
  char way[64];
  behaviour_of((*module)->hash, way);
  return strcmp(way, "not_loaded") ? 0 : 209;
}
hipError_t hipModuleGetFunction(function_t **function, module_t *module, const char *name) {
  *function = malloc(sizeof **function);
  (*function)->module = module;
  snprintf((*function)->name, sizeof (*function)->name, "%s", name);
  return strcmp(name, "vector_add") ? 500 : 0;
}
hipError_t hipEventCreate(event_t **event) { *event = calloc(1, sizeof **event); return 0; }
hipError_t hipEventSynchronize(event_t *event) { return event->recorded ? 0 : 400; }
hipError_t hipEventElapsedTime(float *found, event_t *start, event_t *stop) {
  if (!start->recorded || !stop->recorded) return 400;
  *found = stop->at - start->at;
  return 0;
}

static void mark_lost(void) {
  const char *file = getenv("ASMEVO_STAND_IN_LOSS");
  FILE *made = file ? fopen(file, "w") : NULL;
  if (made) fclose(made);
}

hipError_t hipDeviceSynchronize(void) {
  const char *file = getenv("ASMEVO_STAND_IN_LOSS");
  if (file && !access(file, F_OK)) return 999;
  if (!strcmp(pending, "hang")) { mark_lost(); for (;;) sleep(1); }
  if (!strcmp(pending, "fault")) {
    fprintf(stderr, "Memory access fault by GPU node-1 (Agent handle: 0x1) on address 0x7000. Reason: Page not present.\n");
    abort();
  }
  if (!strcmp(pending, "driver_hang")) { fprintf(stderr, "HW Exception by GPU node-1 (Agent handle: 0x1) reason :GPU Hang\n"); abort(); }
  if (!strcmp(pending, "illegal")) { fprintf(stderr, "HSA_STATUS_ERROR_ILLEGAL_INSTRUCTION: code: 0x2a\n"); abort(); }
  if (!strcmp(pending, "crash")) raise(SIGSEGV);
  int code = pending_error;
  pending[0] = 0;
  pending_error = 0;
  return code;
}

#ifdef OLD /* as ROCm 5.2 and 5.7 do, for which the call was C++ */
#define hipExtModuleLaunchKernel _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
#endif
hipError_t hipExtModuleLaunchKernel(function_t *function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t x,
                                    uint32_t y, uint32_t z, size_t lds, void *stream, void **parameters, void **extra,
                                    event_t *start, event_t *stop, uint32_t flags) {
  if (parameters || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
  const unsigned char *arguments = extra[1];
  size_t size = *(size_t *)extra[3];
  char line[4096];
  int used = snprintf(line, sizeof line, "launch %s %u,%u,%u %u,%u,%u %zu ", function->name, grid_x, grid_y, grid_z, x, y, z, lds);
  for (size_t place = 0; place < size && used < 4000; place++) used += sprintf(line + used, "%02x", arguments[place]);
  note(line);
  float *a, *b, *out; int32_t count;
  memcpy(&a, arguments, 8); memcpy(&b, arguments + 8, 8); memcpy(&out, arguments + 16, 8); memcpy(&count, arguments + 24, 4);
  behaviour_of(function->module->hash, pending);
  if (!strcmp(pending, "not_launched")) return 1;
  float before = out[13];
  for (int32_t i = 0; i < count; i++) out[i] = a[i] + b[i];
  launches++;
  if (!strcmp(pending, "wrong")) out[7] += 1;
  if (!strcmp(pending, "behind")) out[4096 + 5] = 1;
  if (!strcmp(pending, "before")) out[-3] = 1;
  if (!strcmp(pending, "input")) a[9] = 0;
  if (!strcmp(pending, "adds_up")) out[13] = before + 1;
  if (!strcmp(pending, "wrong_in_company") && modules > 1) out[7] += 1;
  if (!strcmp(pending, "fault_in_company") && modules > 1) strcpy(pending, "fault");
  if (!strcmp(pending, "behind_in_company") && modules > 1) out[4096 + 5] = 1;
  if (!strcmp(pending, "hang_in_company") && modules > 1) strcpy(pending, "hang");
  if (!strcmp(pending, "unstable")) out[11] = launches % 3 == 0;
  if (!strcmp(pending, "by_process")) out[11] = (float)getpid();
  if (!strcmp(pending, "sync700")) pending_error = 700;
  if (!strcmp(pending, "sync719")) pending_error = 719;
  if (!strcmp(pending, "lost")) { mark_lost(); pending_error = 999; }
  start->at = 0; start->recorded = stop->recorded = 1;
  float time = !strcmp(pending, "fast") ? 0.05f : !strcmp(pending, "slow") ? 0.2f : 0.1f;
  stop->at = time * (1 + 0.01f * (float)(launches * 7 % 11));
  return 0;
}
