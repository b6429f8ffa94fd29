#include "gpu_backend/communicate/message.hpp"

#include <memory>
#include <mutex>
#include <utility>

namespace rehearse {

namespace {

std::size_t bytes_of(const TensorView& view) { return static_cast<std::size_t>(view.elements()) * size_of(view.type); }

/// A part of a storage goes by way of a buffer.
void by_buffer(ComputeDevice& device, Channel& channel, bool sends, const MessagePart& part, std::uint64_t label,
               const Done& done) {
  const std::shared_ptr<Storage> buffer = device.allocate(bytes_of(*part.view));
  if (sends) {
    device.pack_blocks(part.data, *part.within, part.view->type, buffer->data());
    return channel.send(buffer->data(), bytes_of(*part.view), label,
                        [buffer, done](std::exception_ptr failed) { done(std::move(failed)); });
  }
  channel.receive(buffer->data(), bytes_of(*part.view), label,
                  [&device, buffer, part, done](const std::exception_ptr& failed) {
                    if (failed == nullptr)
                      device.unpack_blocks(buffer->data(), *part.within, part.view->type, part.data);
                    done(failed);
                  });
}

/// To be called `n` times: calls `done` with the last, and with the first failure.
Done all_of(std::size_t n, Done done) {
  struct Left {
    std::mutex mutex;
    std::size_t calls;
    std::exception_ptr failed;
  };
  auto left = std::make_shared<Left>();
  left->calls = n;
  return [left, done = std::move(done)](std::exception_ptr failed) {
    {
      const std::lock_guard lock(left->mutex);
      if (!left->failed) left->failed = std::move(failed);
      if (--left->calls > 0) return;
    }
    done(left->failed);
  };
}

}  // namespace

void start_message(ComputeDevice& device, Channel& channel, bool sends, const std::vector<MessagePart>& parts,
                   std::uint64_t label, Done done) {
  const Done part_done = all_of(parts.size(), std::move(done));
  for (const MessagePart& part : parts) {
    if (!part.within->empty())
      by_buffer(device, channel, sends, part, label, part_done);
    else if (sends)
      channel.send(part.data, bytes_of(*part.view), label, part_done);
    else
      channel.receive(part.data, bytes_of(*part.view), label, part_done);
    ++label;
  }
}

}  // namespace rehearse
