// CUDA arrays: rows without gaps between them, in device memory like any other.  A handle is used only if it is one of a living array.
#pragma once

#include <string.h>

#include "memory.h"

// The types of textures and of CUDA arrays, with the runtime's own values.
enum cudaChannelFormatKind {
    cudaChannelFormatKindSigned = 0, cudaChannelFormatKindUnsigned = 1, cudaChannelFormatKindFloat = 2,
    cudaChannelFormatKindNone = 3,
};
struct cudaChannelFormatDesc {
    int x, y, z, w;
    cudaChannelFormatKind f;
};

enum cudaTextureAddressMode { cudaAddressModeWrap, cudaAddressModeClamp, cudaAddressModeMirror, cudaAddressModeBorder };
enum cudaTextureFilterMode { cudaFilterModePoint, cudaFilterModeLinear };
enum cudaTextureReadMode { cudaReadModeElementType, cudaReadModeNormalizedFloat };
struct cudaTextureDesc {
    cudaTextureAddressMode addressMode[3];
    cudaTextureFilterMode filterMode;
    cudaTextureReadMode readMode;
    int sRGB;
    float borderColor[4];
    int normalizedCoords;
    unsigned int maxAnisotropy;
    cudaTextureFilterMode mipmapFilterMode;
    float mipmapLevelBias, minMipmapLevelClamp, maxMipmapLevelClamp;
    int disableTrilinearOptimization, seamlessCubemap;
};
typedef unsigned long long cudaTextureObject_t;

typedef struct cudaArray* cudaArray_t;
typedef const struct cudaArray* cudaArray_const_t;
#define cudaArrayDefault 0x00
#define cudaArraySurfaceLoadStore 0x02

enum cudaResourceType { cudaResourceTypeArray = 0, cudaResourceTypeLinear = 2, cudaResourceTypePitch2D = 3 };
struct cudaResourceDesc {
    cudaResourceType resType;
    union {
        struct {
            cudaArray_t array;
        } array;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t sizeInBytes;
        } linear;
        struct {
            void* devPtr;
            cudaChannelFormatDesc desc;
            size_t width, height, pitchInBytes;
        } pitch2D;
        struct {
            int reserved[32];
        } reserved;
    } res;
    unsigned int flags;
};
struct cudaResourceViewDesc;

struct cudaPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};
struct cudaMemcpy3DParms {
    cudaArray_t srcArray;
    cudaPos srcPos;
    cudaPitchedPtr srcPtr;
    cudaArray_t dstArray;
    cudaPos dstPos;
    cudaPitchedPtr dstPtr;
    cudaExtent extent;
    cudaMemcpyKind kind;
};
inline cudaPitchedPtr make_cudaPitchedPtr(void* address, size_t pitch, size_t xsize, size_t ysize) { return {address, pitch, xsize, ysize}; }
inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }

inline cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) { return {x, y, z, w, f}; }

namespace emu EMU_HIDDEN {

// How a type is a texture's: `type` where it is one, with its channels and what they are made of.
template <class T>
struct TextureValue {
    static cudaChannelFormatDesc desc() { return {0, 0, 0, 0, cudaChannelFormatKindNone}; }
};

// A fetch gives four words; integers narrower than those are cut, as the fetch instruction's users do.
template <class Channel>
EMU_INLINE Channel channel_of(uint32_t word) {
    if constexpr (std::is_same_v<Channel, float>) {
        float value;
        memcpy(&value, &word, sizeof value);
        return value;
    } else {
        return static_cast<Channel>(word);
    }
}

template <class Channel>
inline constexpr cudaChannelFormatKind kind_of = std::is_same_v<Channel, float>  ? cudaChannelFormatKindFloat
                                                 : std::is_signed_v<Channel> ? cudaChannelFormatKindSigned
                                                                             : cudaChannelFormatKindUnsigned;

#define EMU_TEXTURE_VALUE(T, Channel, x, y, z, w, ...)                                                                 \
    template <>                                                                                                        \
    struct TextureValue<T> {                                                                                           \
        using type = void;                                                                                             \
        static EMU_INLINE T from(const uint32_t* words) { return {__VA_ARGS__}; }                                                 \
        static cudaChannelFormatDesc desc() {                                                                          \
            constexpr int bits = 8 * sizeof(Channel);                                                                  \
            return {x * bits, y * bits, z * bits, w * bits, kind_of<Channel>};                                         \
        }                                                                                                              \
    };
#define EMU_WORD(Channel, index) channel_of<Channel>(words[index])
#define EMU_TEXTURE_VALUES(Channel, name)                                                                              \
    EMU_TEXTURE_VALUE(Channel, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##1, Channel, 1, 0, 0, 0, EMU_WORD(Channel, 0))                                              \
    EMU_TEXTURE_VALUE(name##2, Channel, 1, 1, 0, 0, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1))                        \
    EMU_TEXTURE_VALUE(name##4, Channel, 1, 1, 1, 1, EMU_WORD(Channel, 0), EMU_WORD(Channel, 1), EMU_WORD(Channel, 2), EMU_WORD(Channel, 3))
EMU_TEXTURE_VALUES(signed char, char)
EMU_TEXTURE_VALUES(unsigned char, uchar)
EMU_TEXTURE_VALUES(short, short)
EMU_TEXTURE_VALUES(unsigned short, ushort)
EMU_TEXTURE_VALUES(int, int)
EMU_TEXTURE_VALUES(unsigned int, uint)
EMU_TEXTURE_VALUES(float, float)
EMU_TEXTURE_VALUE(char, char, 1, 0, 0, 0, EMU_WORD(char, 0))
#undef EMU_TEXTURE_VALUES
#undef EMU_WORD
#undef EMU_TEXTURE_VALUE

// A descriptor as a size of texels: one, two or four channels, all of 8, 16 or 32 bits.
struct TexelFormat {
    unsigned channels, bits;
    cudaChannelFormatKind kind;

    unsigned bytes() const { return channels * bits / 8; }
    explicit operator bool() const { return channels != 0; }
};

inline TexelFormat texel_format(const cudaChannelFormatDesc& desc) {
    const int sizes[4] = {desc.x, desc.y, desc.z, desc.w};
    unsigned channels = 0;
    while (channels < 4 && sizes[channels] != 0) ++channels;
    bool good = channels == 1 || channels == 2 || channels == 4;
    for (unsigned i = 0; i < 4; ++i) good &= sizes[i] == (i < channels ? desc.x : 0);
    good &= desc.x == 8 || desc.x == 16 || desc.x == 32;
    bool floats = desc.f == cudaChannelFormatKindFloat && desc.x != 8;
    good &= desc.f == cudaChannelFormatKindSigned || desc.f == cudaChannelFormatKindUnsigned || floats;
    return good ? TexelFormat{channels, static_cast<unsigned>(desc.x), desc.f} : TexelFormat{0, 0, cudaChannelFormatKindNone};
}

}  // namespace emu

template <class T>
cudaChannelFormatDesc cudaCreateChannelDesc() { return emu::TextureValue<T>::desc(); }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf1() { return {16, 0, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf2() { return {16, 16, 0, 0, cudaChannelFormatKindFloat}; }
inline cudaChannelFormatDesc cudaCreateChannelDescHalf4() { return {16, 16, 16, 16, cudaChannelFormatKindFloat}; }

struct cudaArray {
    char* memory;
    cudaChannelFormatDesc desc;
    emu::TexelFormat format;
    cudaExtent extent;  // as asked for: 0 where it has no such dimension
    unsigned flags;
    cudaArray* next;  // of those that live

    size_t row_bytes() const { return extent.width * format.bytes(); }
    size_t rows() const { return extent.height ? extent.height : 1; }
    size_t slices() const { return extent.depth ? extent.depth : 1; }
    size_t bytes() const { return row_bytes() * rows() * slices(); }
};

namespace emu EMU_HIDDEN {

// Limits of compute capability 9.0, in texels.
inline constexpr size_t max_texture_1d = 131072, max_texture_3d = 16384;
inline constexpr size_t max_texture_2d[2] = {131072, 65536}, max_texture_2d_linear[3] = {131072, 65000, 2097120};
inline constexpr size_t max_texture_1d_linear = size_t{1} << 28;
inline constexpr size_t texture_alignment = 512, texture_pitch_alignment = 32;

inline cudaArray* arrays = nullptr;
inline pthread_mutex_t arrays_mutex = PTHREAD_MUTEX_INITIALIZER;

// Whether the handle is one; then `out` is a copy, which the array's end leaves alone.
inline bool read_array(cudaArray_const_t handle, cudaArray* out) {
    pthread_mutex_lock(&arrays_mutex);
    bool found = false;
    for (const cudaArray* entry = arrays; entry; entry = entry->next)
        if (entry == handle) *out = *entry, found = true;
    pthread_mutex_unlock(&arrays_mutex);
    return found;
}

inline bool has_room(cudaExtent extent) {
    if (extent.width == 0) return false;
    if (extent.depth) return extent.height && extent.width <= max_texture_3d && extent.height <= max_texture_3d && extent.depth <= max_texture_3d;
    if (extent.height) return extent.width <= max_texture_2d[0] && extent.height <= max_texture_2d[1];
    return extent.width <= max_texture_1d;
}

inline cudaError_t make_array(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
    TexelFormat format = desc ? texel_format(*desc) : TexelFormat{};
    if (!out || !format || !has_room(extent)) return report(cudaErrorInvalidValue);
    if (flags & ~unsigned{cudaArraySurfaceLoadStore}) return report(cudaErrorNotSupported);
    cudaArray made{nullptr, *desc, format, extent, flags, nullptr};
    void* memory = nullptr;
    if (cudaError_t failed = allocate(&memory, made.bytes())) return failed;
    made.memory = static_cast<char*>(memory);
    *out = new cudaArray(made);
    pthread_mutex_lock(&arrays_mutex);
    (*out)->next = arrays;
    arrays = *out;
    pthread_mutex_unlock(&arrays_mutex);
    return cudaSuccess;
}

inline cudaError_t free_array(cudaArray_t handle) {
    if (!handle) return cudaSuccess;
    pthread_mutex_lock(&arrays_mutex);
    cudaArray** at = &arrays;
    while (*at && *at != handle) at = &(*at)->next;
    cudaArray* found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&arrays_mutex);
    if (!found) return report(cudaErrorInvalidResourceHandle);
    void* memory = found->memory;
    delete found;
    return release(memory);
}

// One end of a copy of rows and slices, in bytes.
struct CopyEnd {
    char* start;
    size_t row_bytes, slice_bytes;
};

// Where in an array a box of bytes begins; false where it is not in it.
inline bool box_in(const cudaArray& array, size_t x_bytes, size_t y, size_t z, size_t width_bytes, size_t height, size_t depth, CopyEnd* out) {
    auto within = [](size_t from, size_t count, size_t size) { return from <= size && count <= size - from; };
    if (!within(x_bytes, width_bytes, array.row_bytes()) || !within(y, height, array.rows()) || !within(z, depth, array.slices())) return false;
    size_t slice = array.row_bytes() * array.rows();
    *out = {array.memory + z * slice + y * array.row_bytes() + x_bytes, array.row_bytes(), slice};
    return true;
}

inline cudaError_t copy_box(CopyEnd to, CopyEnd from, size_t width_bytes, size_t height, size_t depth, cudaStream_t stream) {
    enqueue(stream, [=] {
        for (size_t slice = 0; slice < depth; ++slice)
            for (size_t row = 0; row < height; ++row) {
                char* target = to.start + slice * to.slice_bytes + row * to.row_bytes;
                memmove(target, from.start + slice * from.slice_bytes + row * from.row_bytes, width_bytes);
                EMU_TELL(host_wrote(target, width_bytes));
            }
    });
    return cudaSuccess;
}

inline cudaError_t copy_to_array(cudaArray_t handle, size_t x_bytes, size_t y, const void* from, size_t pitch, size_t width_bytes, size_t height,
                                 cudaStream_t stream) {
    cudaArray array;
    CopyEnd to;
    if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
    if (width_bytes > pitch) return report(cudaErrorInvalidPitchValue);
    if (!from || !box_in(array, x_bytes, y, 0, width_bytes, height, 1, &to)) return report(cudaErrorInvalidValue);
    return copy_box(to, {static_cast<char*>(const_cast<void*>(from)), pitch, 0}, width_bytes, height, 1, stream);
}

inline cudaError_t copy_from_array(void* to, size_t pitch, cudaArray_const_t handle, size_t x_bytes, size_t y, size_t width_bytes, size_t height,
                                   cudaStream_t stream) {
    cudaArray array;
    CopyEnd from;
    if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
    if (width_bytes > pitch) return report(cudaErrorInvalidPitchValue);
    if (!to || !box_in(array, x_bytes, y, 0, width_bytes, height, 1, &from)) return report(cudaErrorInvalidValue);
    return copy_box({static_cast<char*>(to), pitch, 0}, from, width_bytes, height, 1, stream);
}

// The older copies, of bytes that go on in the next row.
inline cudaError_t copy_through(cudaArray_const_t handle, size_t x_bytes, size_t y, void* other, size_t bytes, bool to_array, cudaStream_t stream) {
    cudaArray array;
    CopyEnd start;
    if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
    if (!other || !box_in(array, x_bytes, y, 0, 0, 0, 1, &start)) return report(cudaErrorInvalidValue);
    if (bytes > array.row_bytes() * array.rows() - static_cast<size_t>(start.start - array.memory)) return report(cudaErrorInvalidValue);
    CopyEnd end{static_cast<char*>(other), 0, 0};
    return to_array ? copy_box(start, end, bytes, 1, 1, stream) : copy_box(end, start, bytes, 1, 1, stream);
}

// An end of cudaMemcpy3D: positions and widths are in texels for an array, in bytes for other memory.
inline cudaError_t end_of(cudaArray_t handle, cudaPitchedPtr memory, cudaPos at, size_t width_bytes, size_t unit, cudaExtent extent, CopyEnd* out) {
    if (!handle == !memory.ptr) return report(cudaErrorInvalidValue);
    if (handle) {
        cudaArray array;
        if (!read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
        bool inside = at.x <= array.extent.width && box_in(array, at.x * unit, at.y, at.z, width_bytes, extent.height, extent.depth, out);
        return inside ? cudaSuccess : report(cudaErrorInvalidValue);
    }
    if (at.x > memory.pitch || width_bytes > memory.pitch - at.x) return report(cudaErrorInvalidPitchValue);
    size_t slice = memory.pitch * memory.ysize;
    *out = {static_cast<char*>(memory.ptr) + at.z * slice + at.y * memory.pitch + at.x, memory.pitch, slice};
    return cudaSuccess;
}

inline cudaError_t copy_3d(const cudaMemcpy3DParms* how, cudaStream_t stream) {
    if (!how) return report(cudaErrorInvalidValue);
    cudaArray array;
    size_t unit = 1;
    for (cudaArray_t handle : {how->srcArray, how->dstArray}) {
        if (handle && !read_array(handle, &array)) return report(cudaErrorInvalidResourceHandle);
        if (handle && unit != 1 && unit != array.format.bytes()) return report(cudaErrorInvalidValue);
        if (handle) unit = array.format.bytes();
    }
    if (how->extent.width > (size_t{1} << 40)) return report(cudaErrorInvalidValue);
    size_t width_bytes = how->extent.width * unit;
    CopyEnd from, to;
    if (cudaError_t failed = end_of(how->srcArray, how->srcPtr, how->srcPos, width_bytes, unit, how->extent, &from)) return failed;
    if (cudaError_t failed = end_of(how->dstArray, how->dstPtr, how->dstPos, width_bytes, unit, how->extent, &to)) return failed;
    return copy_box(to, from, width_bytes, how->extent.height, how->extent.depth, stream);
}

}  // namespace emu

inline cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, size_t width, size_t height = 0, unsigned flags = 0) {
    return emu::make_array(array, desc, {width, height, 0}, flags);
}
inline cudaError_t cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags = 0) {
    return emu::make_array(array, desc, extent, flags);
}
inline cudaError_t cudaFreeArray(cudaArray_t array) { return emu::free_array(array); }
inline cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
    cudaArray found;
    if (!emu::read_array(array, &found)) return emu::report(cudaErrorInvalidResourceHandle);
    if (desc) *desc = found.desc;
    if (extent) *extent = found.extent;
    if (flags) *flags = found.flags;
    return cudaSuccess;
}
inline cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
    return desc ? cudaArrayGetInfo(desc, nullptr, nullptr, const_cast<cudaArray_t>(array)) : emu::report(cudaErrorInvalidValue);
}

inline cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t pitch, size_t width_bytes, size_t height,
                                            cudaMemcpyKind, cudaStream_t stream = nullptr) {
    return emu::copy_to_array(to, x_bytes, y, from, pitch, width_bytes, height, stream);
}
inline cudaError_t cudaMemcpy2DToArray(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t pitch, size_t width_bytes, size_t height,
                                       cudaMemcpyKind) {
    return emu::copy_to_array(to, x_bytes, y, from, pitch, width_bytes, height, nullptr);
}
inline cudaError_t cudaMemcpy2DFromArrayAsync(void* to, size_t pitch, cudaArray_const_t from, size_t x_bytes, size_t y, size_t width_bytes, size_t height,
                                              cudaMemcpyKind, cudaStream_t stream = nullptr) {
    return emu::copy_from_array(to, pitch, from, x_bytes, y, width_bytes, height, stream);
}
inline cudaError_t cudaMemcpy2DFromArray(void* to, size_t pitch, cudaArray_const_t from, size_t x_bytes, size_t y, size_t width_bytes, size_t height,
                                         cudaMemcpyKind) {
    return emu::copy_from_array(to, pitch, from, x_bytes, y, width_bytes, height, nullptr);
}
inline cudaError_t cudaMemcpyToArray(cudaArray_t to, size_t x_bytes, size_t y, const void* from, size_t bytes, cudaMemcpyKind) {
    return emu::copy_through(to, x_bytes, y, const_cast<void*>(from), bytes, true, nullptr);
}
inline cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, size_t x_bytes, size_t y, size_t bytes, cudaMemcpyKind) {
    return emu::copy_through(from, x_bytes, y, to, bytes, false, nullptr);
}
inline cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* how, cudaStream_t stream = nullptr) { return emu::copy_3d(how, stream); }
inline cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* how) { return emu::copy_3d(how, nullptr); }
