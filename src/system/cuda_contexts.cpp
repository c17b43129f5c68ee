// Finding the machine's GPUs among CUDA's devices, and holding their primary contexts.
#include "system/cuda_contexts.hpp"

#include <atomic>
#include <cctype>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "system/stray_copies.hpp"

namespace nobounce::system {
namespace {

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& character : lower) {
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return lower;
}

/// `gpu-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`: all in lower case, to be compared with lower_case().
std::string uuid_text(const cuda::CUuuid& uuid) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text = "gpu-";
  for (int index = 0; index < 16; ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) text += '-';
    text += digits[uuid.bytes[index] >> 4];
    text += digits[uuid.bytes[index] & 15];
  }
  return text;
}

/// Without leading zeros of the domain, which tools write with four or with eight digits.
std::string bdf_key(std::string_view bdf) {
  std::string key = lower_case(bdf);
  key.erase(0, key.find_first_not_of('0'));
  return key;
}

/// What identifies one CUDA device.
struct CudaDevice {
  cuda::CUdevice device = 0;
  std::string uuid;  // empty where the driver does not say
  std::string bdf;
};

Result<CudaDevice> read_device(Cuda& cuda, int ordinal) {
  CudaDevice found;
  if (const int code = cuda.device_get(&found.device, ordinal); code != cuda::success) {
    return cuda_error(cuda, code, "find CUDA device " + std::to_string(ordinal));
  }
  cuda::CUuuid uuid{};
  if (cuda.device_get_uuid(&uuid, found.device) == cuda::success) found.uuid = uuid_text(uuid);
  char bdf[32] = {};
  if (cuda.device_get_pci_bus_id(bdf, sizeof bdf, found.device) == cuda::success) {
    bdf[sizeof bdf - 1] = '\0';
    found.bdf = bdf;
  }
  return found;
}

bool is_same_gpu(const Gpu& gpu, const CudaDevice& device) {
  if (!gpu.uuid.empty() && !device.uuid.empty()) return lower_case(gpu.uuid) == device.uuid;
  return !gpu.bdf.empty() && !device.bdf.empty() && bdf_key(gpu.bdf) == bdf_key(device.bdf);
}

Error gpu_error(ErrorOrigin origin, std::string attempted, std::string detail, std::string remedy) {
  Error error;
  error.origin = origin;
  error.attempted = std::move(attempted);
  error.detail = std::move(detail);
  error.remedy = std::move(remedy);
  return error;
}

std::string use_text(std::uint32_t gpu) {
  return "use gpu:" + std::to_string(gpu);
}

}  // namespace

struct CudaContexts::State {
  /// A GPU of the machine: its CUDA device where CUDA shows it, its context once retained.
  struct Entry {
    std::optional<cuda::CUdevice> device;
    std::optional<int> ordinal;
    std::mutex retaining;
    std::atomic<cuda::CUcontext> context{nullptr};
  };

  Host* host = nullptr;
  Cuda* cuda = nullptr;
  std::uint64_t process_id = 0;
  std::deque<Entry> entries;  // by machine index; a deque, because a mutex does not move
  StrayCopies strays{[this] {
    host->process().warn(
        "nobounce: a copy does not end, and its bytes may still arrive: what it uses of regions of "
        "the session stays as it is until it has ended");
  }};

  [[nodiscard]] bool forked() const { return host->process().id() != process_id; }
  [[nodiscard]] Error missing(std::uint32_t gpu) const;
};

CudaContexts::CudaContexts() : state_(std::make_unique<State>()) {}

CudaContexts::~CudaContexts() {
  if (state_->forked()) return;  // the parent's driver handles mean nothing here
  for (State::Entry& entry : state_->entries) {
    if (entry.context.load() != nullptr)
      (void)state_->cuda->device_primary_ctx_release(*entry.device);
  }
}

Result<std::unique_ptr<CudaContexts>> CudaContexts::open(Host& host, const Machine& machine) {
  const auto no_gpu_if = [](bool none) { return none ? Cause::machine_no_gpu : Cause::none; };
  const auto table = host.cuda();
  if (!table) {
    Error error = table.error();
    if (error.cause == Cause::none) error.cause = no_gpu_if(machine.gpus.empty());
    return error;
  }
  Cuda& cuda = **table;
  if (const int code = cuda.init(0); code != cuda::success) {
    return cuda_error(cuda, code, "initialise CUDA", no_gpu_if(code == cuda::error_no_device));
  }
  int count = 0;
  if (const int code = cuda.device_get_count(&count); code != cuda::success) {
    return cuda_error(cuda, code, "count the GPUs", no_gpu_if(code == cuda::error_no_device));
  }
  if (count <= 0) {
    return cuda_error(cuda, cuda::error_no_device, "count the GPUs", Cause::machine_no_gpu);
  }
  std::unique_ptr<CudaContexts> contexts(new CudaContexts);
  State& state = *contexts->state_;
  state.host = &host;
  state.cuda = &cuda;
  state.process_id = host.process().id();
  state.entries.resize(machine.gpus.size());
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const auto device = read_device(cuda, ordinal);
    if (!device) return device.error();
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
      State::Entry& entry = state.entries[gpu];
      if (entry.device.has_value() || !is_same_gpu(machine.gpus[gpu], *device)) continue;
      entry.device = device->device;
      entry.ordinal = ordinal;
      break;
    }
  }
  return contexts;
}

Cuda& CudaContexts::table() const {
  return *state_->cuda;
}

StrayCopies& CudaContexts::strays() const {
  return state_->strays;
}

Error CudaContexts::State::missing(std::uint32_t gpu) const {
  if (entries.empty()) {
    Error error = gpu_error(ErrorOrigin::input, use_text(gpu), "this machine has no GPU", "");
    error.cause = Cause::machine_no_gpu;
    return error;
  }
  if (gpu >= entries.size()) {
    const std::string last = std::to_string(entries.size() - 1);
    return gpu_error(ErrorOrigin::input, use_text(gpu),
                     "the last GPU of this machine is gpu:" + last,
                     "name one from gpu:0 to gpu:" + last);
  }
  const auto visible = host->environment().get("CUDA_VISIBLE_DEVICES");
  if (visible.has_value()) {
    return gpu_error(ErrorOrigin::input, use_text(gpu),
                     "CUDA_VISIBLE_DEVICES=" + *visible + " hides it",
                     "add it to CUDA_VISIBLE_DEVICES, or unset that");
  }
  return gpu_error(ErrorOrigin::input, use_text(gpu), "CUDA does not show this GPU",
                   "compare `nvidia-smi -L` with the devices given to this container or user");
}

Result<cuda::CUdevice> CudaContexts::device(std::uint32_t gpu) const {
  if (gpu >= state_->entries.size() || !state_->entries[gpu].device.has_value()) {
    return state_->missing(gpu);
  }
  return *state_->entries[gpu].device;
}

Result<cuda::CUcontext> CudaContexts::context(std::uint32_t gpu) {
  if (state_->forked()) {
    Error error = gpu_error(ErrorOrigin::session, use_text(gpu), "", "");
    error.cause = Cause::session_forked;
    return error;
  }
  const auto found = device(gpu);
  if (!found) return found.error();
  State::Entry& entry = state_->entries[gpu];
  if (const cuda::CUcontext context = entry.context.load(); context != nullptr) return context;
  const std::lock_guard lock(entry.retaining);
  if (const cuda::CUcontext context = entry.context.load(); context != nullptr) return context;
  cuda::CUcontext context = nullptr;
  const int code = state_->cuda->device_primary_ctx_retain(&context, *found);
  if (code != cuda::success) {
    return cuda_error(*state_->cuda, code,
                      "retain the primary context of gpu:" + std::to_string(gpu));
  }
  entry.context.store(context);
  return context;
}

Result<std::uint32_t> CudaContexts::gpu_of_ordinal(int ordinal) const {
  for (std::size_t gpu = 0; gpu < state_->entries.size(); ++gpu) {
    if (state_->entries[gpu].ordinal == ordinal) return static_cast<std::uint32_t>(gpu);
  }
  return gpu_error(ErrorOrigin::input, "find CUDA device " + std::to_string(ordinal),
                   "no GPU of this machine is that CUDA device", "");
}

Error cuda_error(Cuda& cuda, cuda::CUresult code, std::string attempted, Cause cause) {
  Error error;
  error.origin = ErrorOrigin::cuda;
  error.code = code;
  error.attempted = std::move(attempted);
  error.cause = cause;
  const char* name = nullptr;
  if (cuda.get_error_name(code, &name) == cuda::success && name != nullptr) error.detail = name;
  if (error.detail.empty()) error.detail = "CUDA error " + std::to_string(code);
  return error;
}

}  // namespace nobounce::system
