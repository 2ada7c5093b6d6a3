//! What does not fit is an error.

use pointsman_gpu::kernels::{self, Product, Sizes};
use pointsman_gpu::{Error, Held, Job};

use crate::compare::*;

#[test]
fn buffers_that_are_too_short_are_refused_by_name() {
    let Some(gpu) = gpu() else { return };
    let refused = |name: &str, work: &dyn Fn(&mut Job<'_>, &Held) -> Result<(), Error>| {
        let error = gpu
            .run(|job| {
                let short = job.upload(&[1.0f32; 9])?;
                work(job, &short)
            })
            .unwrap_err();
        let named = matches!(&error, Error::Refused(why) if why.contains(name));
        assert!(named, "{name}: {error}");
    };
    refused("x of add_f32 in a buffer of 36 bytes", &|job, x| {
        let [y, z] = [job.room::<f32>(10)?, job.room::<f32>(10)?];
        kernels::add(job, x, &y, &z, 10)
    });
    refused("the result of sum_f32", &|job, x| {
        let empty = job.room::<f32>(0)?;
        kernels::sum(job, x, &empty, 9)
    });
    for how in [Product::Registers, Product::Tiles] {
        refused("b of matmul", &|job, a| {
            let (b, c) = (job.room::<f32>(11)?, job.room::<f32>(12)?);
            kernels::matmul(job, how, a, &b, &c, [3, 3, 4])
        });
    }
    refused("6 numbers", &|job, x| {
        kernels::fft(job, x, x, x, [1, 6], false)
    });
    refused("stride of 0", &|job, x| {
        let [n, c, h, w, k, r, s] = [1; 7];
        let (stride, padding) = (0, 0);
        let sizes = Sizes {
            n,
            c,
            h,
            w,
            k,
            r,
            s,
            stride,
            padding,
        };
        kernels::conv2d(job, x, x, x, &sizes)
    });
    refused("elements", &|job, x| {
        kernels::scale(job, 2.0, x, usize::MAX)
    });
}

#[test]
fn a_result_that_is_an_argument_is_refused() {
    let Some(gpu) = gpu() else { return };
    let mut x = [1.0f32; 8];
    let both = gpu.run(|job| {
        let [a, b] = [job.upload(&x)?, job.upload(&x)?];
        kernels::add(job, &a, &b, &a, 8)?;
        job.finish()
    });
    let said = matches!(&both, Err(Error::Refused(why)) if why.contains("result of add_f32"));
    assert!(said, "{both:?}");
    let twice = gpu.run(|job| {
        let [a, b] = [job.upload(&x)?, job.upload(&x)?];
        kernels::add(job, &a, &a, &b, 8)?;
        job.download(&b, &mut x)
    });
    assert_eq!(
        (twice, x),
        (Ok(()), [2.0; 8]),
        "the same argument twice is fine"
    );
}
