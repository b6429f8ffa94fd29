// Programs that start the ranks of a job. Facts from pytorch/pytorch @08187d9edd (2.14) torch/distributed/run.py,
// deepspeedai/DeepSpeed @edaa7221267243 deepspeed/launcher/runner.py, huggingface/accelerate @16cb6eb80dd9
// src/accelerate/commands/launch.py and config, and Slurm's srun and sbatch pages.

#include "core/translate/language.hpp"

namespace rehearse::translate {

namespace {

/// Names are spelled with dashes, whichever the command line has.
Language launcher() {
  Language out{"launcher", "", {}};
  std::vector<Term>& t = out.terms;
  for (const char* name : {"--nnodes", "--num-nodes", "--num-machines", "--nodes", "-N"})
    t.push_back(text(name, "job.nodes"));
  for (const char* name :
       {"--nproc-per-node", "--num-gpus", "--ntasks-per-node", "--gpus-per-node", "--gres", "-g", "--devices"})
    t.push_back(text(name, "job.gpus_per_node"));
  for (const char* name : {"--num-processes", "--ntasks", "-n", "-np"}) t.push_back(text(name, "job.gpus"));
  t.push_back(text("--include", "job.included"));
  t.push_back(text("--config-file", "file.accelerate"));
  t.push_back(text("--hostfile", "file.hosts"));
  t.push_back(text("-H", "file.hosts"));
  ignore(t, "how processes are started: no effect on a step", {"-*"});
  return out;
}

/// Variables that programs read: NVIDIA/TransformerEngine, NCCL's and PyTorch's documentation.
Language environment() {
  Language out{"environment", "", {}};
  std::vector<Term>& t = out.terms;
  t.push_back(toggle("CUDA_LAUNCH_BLOCKING", "framework.launch_blocking"));
  t.push_back(text("CUDA_VISIBLE_DEVICES", "job.visible"));
  t.push_back(toggle("NVTE_FLASH_ATTN", "job.te_flash"));
  t.push_back(toggle("NVTE_FUSED_ATTN", "job.te_fused"));
  t.push_back(toggle("NVTE_UNFUSED_ATTN", "job.te_unfused"));
  t.push_back(toggle("NVTE_NVFP4_DISABLE_RHT", "framework.fp8_rotation", false, true));
  ignore(t, "the network's and the allocator's own business, or no effect on a step",
         {"NCCL_*", "CUDA_*", "TORCH_*", "PYTORCH_*", "NVTE_*", "OMP_*", "UB_*", "CUBLAS*", "CUDNN*", "GLOO_*", "UCX_*",
          "TF32*", "NVIDIA_*"});
  return out;
}

[[maybe_unused]] const bool entered_launcher =
    languages().add({"launcher", "options of torchrun, srun, deepspeed and accelerate", {}, launcher()});
[[maybe_unused]] const bool entered_environment =
    languages().add({"environment", "variables of the environment", {}, environment()});

}  // namespace

}  // namespace rehearse::translate
