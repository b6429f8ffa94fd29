#include "tests/golden/shell.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

namespace golden {
namespace {

namespace fs = std::filesystem;

int checked(int result, const char* call) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), call);
  return result;
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File input_file(const std::string& text) {
  File file(std::tmpfile(), &std::fclose);
  if (!file) throw std::system_error(errno, std::generic_category(), "tmpfile");
  std::fwrite(text.data(), 1, text.size(), file.get());
  std::rewind(file.get());
  return file;
}

[[noreturn]] void become_shell(const Command& command, const fs::path& directory, int input, int output) {
  setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  if (chdir(directory.c_str()) == 0) execlp("bash", "bash", "-c", command.text.c_str(), static_cast<char*>(nullptr));
  std::perror(directory.c_str());
  _exit(127);
}

/// Reads until the end or the deadline; false at the deadline.
bool read_all(int from, int timeout_s, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_s);
  std::array<char, 4096> buffer;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{from, POLLIN, 0};
    const int ready = poll(&waiting, 1, timeout_s == 0 ? -1 : static_cast<int>(std::max<long>(left, 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (checked(ready, "poll") == 0) return false;
    const auto got = read(from, buffer.data(), buffer.size());
    if (got <= 0) return true;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

void prepare_environment(const std::vector<fs::path>& program_directories) {
  const char* inherited = std::getenv("PATH");
  std::string path;
  for (const auto& directory : program_directories) path += fs::absolute(directory).string() + ":";
  setenv("PATH", (path + (inherited ? inherited : "/usr/bin:/bin")).c_str(), 1);
  setenv("NO_COLOR", "1", 1);
  setenv("TERM", "dumb", 1);
  unsetenv("COLUMNS");  // As wide as in a pipe, which is what readers of the documents see.
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("TZ", "UTC", 1);
  unsetenv("BASH_ENV");
}

Outcome run_command(const Command& command, const fs::path& directory) {
  const auto input = input_file(command.input);
  std::array<int, 2> ends{};
  checked(pipe2(ends.data(), O_CLOEXEC), "pipe2");
  std::fflush(nullptr);
  const pid_t child = checked(fork(), "fork");
  if (child == 0) become_shell(command, directory, fileno(input.get()), ends[1]);
  close(ends[1]);

  Outcome outcome;
  std::string text;
  outcome.timed_out = !read_all(ends[0], command.timeout_s, text);
  close(ends[0]);
  if (outcome.timed_out) kill(-child, SIGKILL);
  outcome.status = wait_for(child);
  outcome.output = split_lines(text);
  drop_trailing_empty(outcome.output);
  return outcome;
}

ScratchDirectory::ScratchDirectory(const fs::path& source, const std::vector<std::pair<std::string, fs::path>>& links) {
  auto pattern = (fs::temp_directory_path() / "golden_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  path_ = pattern;
  for (const auto& [name, target] : links) {
    const auto link = path_ / name;
    fs::create_directories(link.parent_path());
    fs::create_symlink(fs::absolute(target), link);
  }
  for (const auto& entry : fs::directory_iterator(fs::absolute(source)))
    if (const auto link = path_ / entry.path().filename(); !fs::exists(link)) fs::create_symlink(entry.path(), link);
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace golden
