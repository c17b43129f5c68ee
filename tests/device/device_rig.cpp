// Memory of every kind, and scenarios as processes of their own.
#include "device/device_rig.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

namespace nobounce::device {

namespace cuda = system::cuda;

const CudaDriver& driver() {
  static const CudaDriver loaded;
  return loaded;
}

std::string to_string(Kind kind) {
  switch (kind) {
    case Kind::plain:
      return "plain";
    case Kind::mapped:
      return "mapped";
    case Kind::pool:
      return "pool";
    case Kind::managed:
      return "managed";
  }
  return "?";
}

GpuBuffer::GpuBuffer(Kind kind, std::size_t bytes, int device, std::vector<int> access)
    : kind_(kind) {
  if (kind == Kind::plain) error = driver().allocate(&pointer_, bytes);
  if (kind == Kind::managed) {
    error = driver().allocate_managed(&pointer_, bytes, cuda::managed_attach_global);
  }
  if (kind == Kind::pool) {
    error = driver().allocate_async(&pointer_, bytes, nullptr);
    if (error == 0) error = driver().synchronize(nullptr);
  }
  if (kind != Kind::mapped) return;
  test::MemoryProperties properties{};
  properties.type = 1;  // pinned
  properties.location = {cuda::memory_location_device, device};
  std::size_t unit = 0;
  error = driver().granularity(&unit, &properties, 0);
  if (error != 0) return;
  const std::size_t size = (bytes + unit - 1) / unit * unit;
  test::Handle handle = 0;
  error = driver().create_memory(&handle, size, &properties, 0);
  if (error != 0) return;
  Pointer reserved = 0;
  error = driver().reserve(&reserved, size, 0, 0, 0);
  if (error == 0) error = driver().map(reserved, size, 0, handle, 0);
  (void)driver().release_memory(handle);  // lives on in its mapping
  std::vector<test::MemoryAccess> rights;
  access.push_back(device);
  for (const int one : access) {
    rights.push_back({{cuda::memory_location_device, one}, cuda::memory_access_read_write});
  }
  if (error == 0) error = driver().set_access(reserved, size, rights.data(), rights.size());
  if (error != 0) return;
  pointer_ = reserved;
  reserved_ = size;
}

GpuBuffer::~GpuBuffer() {
  if (pointer_ == 0) return;
  if (kind_ == Kind::mapped) {
    (void)driver().unmap(pointer_, reserved_);
    (void)driver().unreserve(pointer_, reserved_);
  } else if (kind_ == Kind::pool) {
    (void)driver().free_async(pointer_, nullptr);
    (void)driver().synchronize(nullptr);
  } else {
    (void)driver().free(pointer_);
  }
}

std::vector<std::byte> look(Pointer pointer, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  int code = driver().to_host(data.data(), pointer, bytes, nullptr);
  if (code == 0) code = driver().synchronize(nullptr);
  if (code != 0) ADD_FAILURE() << "GPU memory cannot be read: " << code;
  return data;
}

void put(Pointer pointer, const std::vector<std::byte>& bytes) {
  int code = driver().to_device(pointer, bytes.data(), bytes.size(), nullptr);
  if (code == 0) code = driver().synchronize(nullptr);
  if (code != 0) ADD_FAILURE() << "GPU memory cannot be written: " << code;
}

void write_large_file(const std::string& path, std::uint64_t bytes, std::uint64_t seed) {
  const std::vector<std::byte> piece = test::random_bytes(64u << 20, seed);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  for (std::uint64_t written = 0; written < bytes;) {
    const std::uint64_t now = std::min<std::uint64_t>(piece.size(), bytes - written);
    file.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(now));
    written += now;
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

std::int64_t gpu_bytes_used(unsigned gpu) {
  const auto host = system::make_live_host();
  const auto table = host->nvml();
  system::nvml::nvmlDevice_t device = nullptr;
  system::nvml::nvmlMemory_t memory{};
  if (!table.ok() || (*table)->init() != 0) return -1;
  const bool read = (*table)->device_get_handle_by_index(gpu, &device) == 0 &&
                    (*table)->device_get_memory_info(device, &memory) == 0;
  (void)(*table)->shutdown();
  return read ? static_cast<std::int64_t>(memory.used) : -1;
}

std::int64_t host_bytes_used() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kilobytes = 0;
  std::string unit;
  std::int64_t used = 0;
  while (file >> name >> kilobytes && std::getline(file, unit)) {
    if (name == "MemTotal:") used += kilobytes;
    for (const char* free : {"MemFree:", "Buffers:", "Cached:", "SReclaimable:"}) {
      if (name == free) used -= kilobytes;
    }
  }
  return used * 1024;
}

pid_t start_scenario(const std::string& name, std::vector<std::string> arguments,
                     int stderr_descriptor) {
  arguments.insert(arguments.begin(), {"/proc/self/exe", "--scenario=" + name});
  std::vector<char*> pointers;
  for (std::string& word : arguments) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::dup2(stderr_descriptor, 2);
  ::execv(pointers[0], pointers.data());
  ::_exit(127);
}

Ended run_scenario(const std::string& name, std::vector<std::string> arguments,
                   std::chrono::seconds limit) {
  const int said = ::memfd_create("said", MFD_CLOEXEC);
  const pid_t child = start_scenario(name, std::move(arguments), said);
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  bool late = false;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    late = std::chrono::steady_clock::now() > end;
    if (late) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  Ended ended;
  ended.code = late ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.said.resize(static_cast<std::size_t>(::lseek(said, 0, SEEK_END)));
  if (::pread(said, ended.said.data(), ended.said.size(), 0) < 0) ended.said = "(unreadable)";
  ::close(said);
  return ended;
}

}  // namespace nobounce::device
